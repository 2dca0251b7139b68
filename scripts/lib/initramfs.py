# SPDX-License-Identifier: GPL-2.0
"""The root of scripts/vm --initramfs: the parts of the Debian root and of the checkout that
the tests need, as a cpio archive.

Runs inside the Debian root. Everything keeps its path, symbolic links included.
"""

import glob
import os
import re
import stat
import subprocess
import sys

TOP = os.environ["MOOR_TOP"]
PYTHON = "/usr/lib/python%d.%d" % sys.version_info[:2]

PROGRAMS = ("busybox", "dash", "python3", "env", "dmesg", "ip", "rdma", "kmod", "modprobe", "insmod",
            "modinfo", "rmmod")
# Large modules of Python that nothing here imports.
PYTHON_LEFT_OUT = re.compile(r"/(__pycache__|idlelib|lib2to3|pydoc_data|ensurepip|unittest|asyncio|email|"
                             r"xml|lib-dynload|_pyrepl|sqlite3|tkinter|config-.*)$")
FOLDERS = ("/bin", "/dev", "/lib", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp", "/var/log", "/var/tmp")
MODULES = ("ib_uverbs", "rdma_ucm")


class Archive:
    """The archive's contents: paths, with the folders and links on the way to them."""

    def __init__(self):
        self.paths = set()

    def add(self, path):
        """Adds one path; of a folder, the folder alone."""
        done = "/"
        for name in path.strip("/").split("/"):
            done = os.path.join(done, name)
            self.paths.add(done)
            if os.path.islink(done):
                self.add(os.path.join(os.path.dirname(done), os.readlink(done)))
                done = os.path.realpath(done)

    def add_tree(self, top, left_out=None):
        """Adds a folder and everything in it."""
        for folder, folders, files in os.walk(top):
            if left_out:
                folders[:] = [name for name in folders if not left_out.search(f"{folder}/{name}")]
            for name in files + folders:
                self.add(f"{folder}/{name}")

    def add_libraries(self):
        """Adds the libraries that the programs and libraries are linked with."""
        files = [path for path in self.paths if os.path.isfile(path) and is_elf(path)]
        found = subprocess.run(["ldd"] + files, capture_output=True, text=True, check=False).stdout
        for path in re.findall(r"(/\S+) \(0x", found):
            self.add(path)

    def write(self, file):
        """The contents as an archive that the kernel can read."""
        names = "".join(path + "\n" for path in sorted(self.paths))
        with open(file, "wb") as out:
            subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], input=names.encode(), stdout=out,
                           stderr=subprocess.PIPE, cwd="/", check=True)


def is_elf(path):
    """Is the file a program or library?"""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def module_files(version, driver):
    """The kernel modules that the driver needs, and the files that modprobe needs."""
    tree = f"/lib/modules/{version}"
    if not os.path.isdir(tree):
        return []  # a kernel of our own has them built in
    depends = subprocess.run(["modinfo", "-F", "depends", driver], capture_output=True, text=True,
                             check=True).stdout.strip()
    shown = subprocess.run(["modprobe", "-S", version, "-a", "--show-depends", *MODULES,
                            *filter(None, depends.split(","))],
                           capture_output=True, text=True, check=True).stdout
    return glob.glob(f"{tree}/modules.*") + re.findall(r"^insmod (\S+)", shown, re.MULTILINE)


def test_programs():
    """The files that 'make tests' has built."""
    for path in glob.glob(f"{TOP}/build/tests/*"):
        if os.path.isfile(path) and os.stat(path).st_mode & stat.S_IXUSR:
            yield path


def build(file, version, more):
    """The root for a kernel of this version, with additional files."""
    archive = Archive()
    driver = f"{TOP}/build/modules/{version}/moor.ko"
    for folder in FOLDERS:
        archive.add(folder)
    for name in PROGRAMS:
        archive.add(subprocess.run(["which", name], capture_output=True, text=True,
                                   check=True).stdout.strip())
    archive.add_tree(PYTHON, PYTHON_LEFT_OUT)
    for path in glob.glob(f"{PYTHON}/lib-dynload/_ctypes.*"):
        archive.add(path)
    for path in [driver, *module_files(version, driver), *test_programs(),
                 *glob.glob(f"{TOP}/build/provider/*.so*"), *more]:
        archive.add(path)
    archive.add("/etc/libibverbs.d/moor.driver")
    archive.add_tree(f"{TOP}/tests")
    archive.add(f"{TOP}/scripts/lib/guest-init")
    archive.add_libraries()
    archive.write(file)
