# SPDX-License-Identifier: GPL-2.0
"""Boots the virtual machine: the inner half of scripts/vm.

Runs inside the Debian root, as process 1 of a namespace of its own. virtme-ng
makes the machine (its virtme-run: QEMU's command line, virtiofsd, initramfs);
the guest's init is scripts/lib/guest-init, mounted over virtme-ng's own.
"""

import argparse
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

import initramfs
from console import has_begun, kernel_trouble, lost_patch

TOP = os.environ["MOOR_TOP"]
CACHE = os.environ["MOOR_CACHE"]
VM = "/.moor-vm"  # shared with the guest; see scripts/lib/guest-init
VIRTME_INIT = "/usr/lib/python3/dist-packages/virtme/guest/virtme-init"

GUEST_TROUBLE, TIMED_OUT, NOT_RUN = 123, 124, 125

MODEL_SWITCHES = ("strict", "trap-bar2", "sync-commands")
MODEL_READY_SECONDS = 10
KEPT_LOGS = 100
LEAST_MEM_MB = 256

# The PCI slot of the guest's root, virtio-fs, which refuses to be suspended. The kernel
# begins with the last slot: NICs come behind it and are suspended, serial ports before
# it and are not. Otherwise, when Linux 7.3 resumes a virtio-console, it asks QEMU which
# ports the host has open before there is room for the answer, does not learn it, and a
# process that then writes to such a port hangs.
ROOT_SLOT = 0x10

# Kernels built by scripts/setup-tools.
OWN_KERNELS = ("debug", "kcsan")

class NotRun(Exception):
    """The guest could not be started."""


def say(text):
    """Prints a line for the user; if that fails, the exit status remains."""
    try:
        print(f"vm: {text}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        pass


def parse_arguments(argv):
    """The options of scripts/vm, whose comment is their help text."""

    class Parser(argparse.ArgumentParser):
        def error(self, message):
            raise NotRun(f"{message}; see scripts/vm --help")

    command = None
    if "--" in argv:
        at = argv.index("--")
        argv, command = argv[:at], argv[at + 1:]
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--kernel", default="newest")
    parser.add_argument("--cpus", type=int)
    parser.add_argument("--mem", default="2G")
    parser.add_argument("--nics", type=int, choices=range(9), default=1)
    parser.add_argument("--timeout", type=float)
    for switch in ("iommu", "icount", "control", "initramfs", "no-driver", "no-kvm",
                   "verbose") + MODEL_SWITCHES:
        parser.add_argument("--" + switch, action="store_true")
    for many in ("share", "append", "qemu-arg", "model-arg"):
        parser.add_argument("--" + many, action="append", default=[])
    parser.add_argument("--log")
    # An option's value may itself begin with a dash: --append -x.
    joined = []
    words = iter(argv)
    for word in words:
        if word in ("--append", "--qemu-arg", "--model-arg"):
            word += "=" + next(words, "")
        joined.append(word)
    options = parser.parse_args(joined)
    options.command = command or None
    if options.cpus is None:
        options.cpus = 1 if options.icount else 2
    if not re.fullmatch(r"[1-9]\d*[MG]", options.mem):
        raise NotRun(f"--mem {options.mem}: a number and M or G expected, such as 2G")
    if options.icount and options.cpus != 1:
        raise NotRun("--icount works with one processor only; leave --cpus out")
    if options.initramfs and not options.command:
        raise NotRun("--initramfs: a COMMAND expected")
    if options.initramfs and options.share:
        raise NotRun("--share: not with --initramfs, whose guest sees no folder of the host")
    if options.timeout is None:
        options.timeout = 1800 if options.command else 0
    if not 0 <= options.timeout < 1e9:
        raise NotRun(f"--timeout {options.timeout:g}: seconds expected, or 0 for none")
    mem_mb = int(options.mem[:-1]) * (1024 if options.mem.endswith("G") else 1)
    if mem_mb < LEAST_MEM_MB:
        raise NotRun(f"--mem {options.mem}: the guest's kernel needs {LEAST_MEM_MB}M at least")
    return options


def find_kernel(which):
    """The image and version of the kernel to boot."""
    if which in ("newest", "lts"):
        with open(f"/etc/moor/kernel-{which}", encoding="ascii") as file:
            version = file.read().strip()
        return f"/boot/vmlinuz-{version}", version
    if which in OWN_KERNELS:
        folder = os.path.realpath(f"{TOP}/build/{which}")
        try:
            with open(f"{folder}/include/config/kernel.release", encoding="ascii") as file:
                return f"{folder}/arch/x86/boot/bzImage", file.read().strip()
        except FileNotFoundError:
            raise NotRun(f"no {which} kernel: run 'make {which}-kernel'") from None
    if "/" not in which:
        raise NotRun(f"--kernel {which}: newest, lts, debug, kcsan or the path of an image expected "
                     f"(for one in this folder, ./{which})")
    found = subprocess.run(["file", "-bL", which], capture_output=True, text=True, check=True).stdout
    match = re.search(r"version (\S+)", found)
    if not match:
        raise NotRun(f"--kernel {which}: not a kernel image that can be booted: {found.strip()}")
    return which, match.group(1)


def find_driver(options, version):
    """moor.ko for this kernel, or None if none is to be loaded."""
    wanted = not options.no_driver and options.nics > 0
    driver = f"{TOP}/build/modules/{version}/moor.ko"
    # An initramfs contains it in any case.
    if (wanted or options.initramfs) and not os.path.exists(driver):
        raise NotRun(f"no driver for this kernel: build/modules/{version}/moor.ko is missing; "
                     f"run 'make vm-parts'{'' if options.initramfs else ', or boot with --no-driver'}")
    return driver if wanted else ""


def kvm_works():
    """Does KVM run a guest? The device may exist and every guest hang.

    The test is a boot sector that ends QEMU with status 1 (through isa-debug-exit). The
    answer holds until the host boots again, so it is kept.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        known = f"{CACHE}/kvm-{file.read().strip()}"
    if not os.path.exists(known):
        sector = f"{VM}/boot-sector"
        code = bytes.fromhex("ba f4 00 30 c0 ee f4")  # mov dx,0xf4; xor al,al; out dx,al; hlt
        with open(sector, "wb") as file:
            file.write(code.ljust(510, b"\0") + b"\x55\xaa")
        try:
            ended = subprocess.run(
                ["qemu-system-x86_64", "-accel", "kvm", "-m", "64", "-display", "none", "-nodefaults",
                 "-device", "isa-debug-exit,iobase=0xf4", "-drive", f"file={sector},format=raw"],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)
        except subprocess.TimeoutExpired:
            # Or the host is busy, so that the next one asks again.
            return False
        mine = f"{known}-{os.environ['MOOR_PID']}"
        with open(mine, "w", encoding="ascii") as file:
            file.write("yes\n" if ended.returncode == 1 and not ended.stderr else "no\n")
        os.replace(mine, known)
    with open(known, encoding="ascii") as file:
        return file.read().strip() == "yes"


class Model:
    """One running moor-nic."""

    def __init__(self, options, index, log):
        self.name = f"NIC {index}"
        self.socket = f"/run/nic{index}.sock"
        self.control = f"/run/nic{index}.control" if options.control else ""
        self.log = f"{log}/nic{index}.log"
        program = os.environ.get("MOOR_NIC", f"{TOP}/build/model/moor-nic")
        if not os.access(program, os.X_OK):
            raise NotRun(f"no NIC model: {os.path.relpath(program, TOP)} is missing; "
                         "run 'make vm-parts', or boot with --nics 0")
        ready, ready_write = os.pipe()
        arguments = [program, "--socket", self.socket, "--ready-fd", str(ready_write),
                     "--index", str(index)]
        if self.control:
            arguments += ["--control", self.control]
        arguments += [f"--{switch}" for switch in MODEL_SWITCHES
                      if getattr(options, switch.replace("-", "_"))]
        arguments += [arg.replace("{}", str(index)) for arg in options.model_arg]
        # The thread sanitizer goes on otherwise, and nobody would see what it has found.
        environment = {"TSAN_OPTIONS": "halt_on_error=1", **os.environ}
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=file,
                                            stderr=file, pass_fds=[ready_write], env=environment)
        os.close(ready_write)
        self.ready = ready

    def wait_ready(self):
        """Waits until the model listens."""
        readable, _, _ = select.select([self.ready], [], [], MODEL_READY_SECONDS)
        if not readable:
            ask_for_another_boot()
        if not readable or not os.read(self.ready, 16).startswith(b"ready"):
            how = "did not say that it is ready" if self.process.poll() is None else \
                f"ended with status {self.process.returncode}"
            raise NotRun(f"the model of {self.name} {how}: {last_line(self.log)} (log: {shown(self.log)})")
        os.close(self.ready)

    def death(self):
        """How the model died, if it did while the guest was running."""
        status = self.process.poll()
        if status is None:
            return None
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"the model of {self.name} {how}: {last_line(self.log)}"


def last_line(path):
    """The last lines of a log."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().strip().splitlines()
    return lines[-1] if lines else "its log is empty"


def shown(path):
    """A path as the user knows it."""
    return os.path.relpath(path, TOP) if path.startswith(TOP + "/") else path


def write_guest_files(options, driver, log):
    """Writes the files that scripts/lib/guest-init reads."""
    interactive = options.command is None
    size = shutil.get_terminal_size()
    settings = {
        "provider": f"{TOP}/build/provider",
        "cwd": os.getcwd(),
        "driver": driver,
        "initramfs": "yes" if options.initramfs else "",
        "nics": str(options.nics),
        "console": "ttyS0" if interactive else "",
        "rows": str(size.lines),
        "columns": str(size.columns),
        "TERM": os.environ.get("TERM", "dumb"),
        # For tests that expect more of a NIC with certain switches.
        "MOOR_NIC_SWITCHES": " ".join(switch for switch in MODEL_SWITCHES
                                      if getattr(options, switch.replace("-", "_"))),
        # For tests that read the NIC's log; only where the guest can see it.
        "MOOR_LOGS": log if f"{log}/".startswith(f"{TOP}/") and not options.initramfs else "",
    }
    with open(f"{VM}/settings", "w", encoding="utf-8", errors="surrogateescape") as file:
        for name, value in settings.items():
            file.write(f"{name}={shlex.quote(value)}\n")
        file.write("export TERM MOOR_NIC_SWITCHES MOOR_LOGS\n")
    with open(f"{VM}/folders", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(folder + "\n" for folder in [TOP] + options.share)
    if not interactive:
        with open(f"{VM}/command", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"exec {shlex.join(options.command)}\n")


def kernel_arguments(options):
    """The guest kernel's arguments, besides virtme-ng's."""
    arguments = [
        # Every kernel warning ends the guest and is on the console; but data races only
        # warn, and few are the driver's: these are looked for at the end.
        f"panic_on_warn={int(options.kernel != 'kcsan')}", "oops=panic", "panic=-1",
        "sysctl.kernel.hung_task_panic=1",
        # tests/run-guest writes there which test begins, however many do in a second.
        "printk.devkmsg=on",
        "console=ttyS0" if options.initramfs else "console=hvc0", "ignore_loglevel",
        # Root may map the NIC's BARs beside the driver, as some tests do.
        "iomem=relaxed",
        # As Debian's kernels do by themselves. Without it programs that are
        # mapped from virtiofs crash at random in kernels of our own.
        "init_on_alloc=1",
        # These only cost boot time on an emulated processor.
        "mitigations=off", "nokaslr", "audit=0", "apparmor=0", "random.trust_cpu=on",
        "rcupdate.rcu_expedited=1", "cryptomgr.notests", "no_timer_check", "8250.nr_uarts=1",
        "i8042.noaux=1", "i8042.nokbd=1", "i8042.nopnp=1", "fsck.mode=skip",
    ]
    if options.icount:
        arguments += ["nowatchdog"]
    if options.iommu:
        arguments += ["intel_iommu=on", "iommu.strict=1"]
    return arguments + options.append


def qemu_arguments(options, models, console):
    """QEMU's arguments, besides virtme-ng's."""
    arguments = ["-nodefaults", "-no-reboot"]
    if options.command is not None:
        # Everything the guest's kernel prints goes into a file.
        arguments += ["-chardev", f"file,id=moorlog,path={console}"]
        # The serial port works from a second kernel's first line on.
        arguments += ["-serial", "chardev:moorlog"] if options.initramfs else \
            ["-device", "virtio-serial-pci", "-device", "virtconsole,chardev=moorlog"]
    # Emulated, QEMU's plain processor (virtme-ng's choice) boots in two thirds
    # of the time of "-cpu max": the C library picks no wide vectors.
    if options.icount:
        arguments += ["-icount", "shift=0,sleep=on"]
    if options.iommu and options.kvm:
        arguments += ["-machine", "kernel-irqchip=split"]
    if options.iommu:  # before the devices behind it
        arguments += ["-device", "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on"]
    for index, model in enumerate(models):
        device = {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": model.socket},
                  "addr": f"{ROOT_SLOT + 1 + index:x}"}
        arguments += ["-device", json.dumps(device)]
    bus = "ports" if options.initramfs else "moorcontrol"
    if options.control and models and not options.initramfs:
        arguments += ["-device", "virtio-serial-pci,id=moorcontrol"]
    for index, model in enumerate(models if options.control else []):
        arguments += ["-chardev", f"socket,id=moorcontrol{index},path={model.control}",
                      "-device", f"virtserialport,bus={bus}.0,chardev=moorcontrol{index},"
                                 f"name=moor.control.{index}"]
    return arguments + options.qemu_arg


def virtme_arguments(options, image, models, console):
    """The command line of virtme-run."""
    arguments = ["virtme-run", "--kimg", image, "--mods", "auto", "--rw",
                 "--qemu-bin", f"{TOP}/scripts/lib/vm-qemu",
                 "--memory", options.mem, "--cpus", str(options.cpus), "--disable-microvm"]
    if not options.kvm:
        arguments += ["--disable-kvm"]
    for argument in kernel_arguments(options):
        arguments += ["--kopt", argument]
    if options.command is not None:
        # guest-init takes the command from a file; this sets up the channels.
        arguments += ["--script-sh", "true"]
    return arguments + ["--qemu-opts"] + qemu_arguments(options, models, console)


def write_initramfs(image, version):
    """The guest's root: once to boot from, and a second time inside it with the kernel, for
    kexec."""
    next_kernel = f"{VM}/next"
    initramfs.build("/run/initramfs", version, [f"{VM}/{name}" for name in ("settings", "folders", "command")])
    os.makedirs(next_kernel)
    shutil.copy(image, f"{next_kernel}/kernel")
    shutil.copy("/run/initramfs", f"{next_kernel}/initramfs")
    archive = initramfs.Archive()
    archive.add_tree(next_kernel)
    archive.write("/run/next")
    with open("/run/initramfs", "ab") as whole, open("/run/next", "rb") as more:
        shutil.copyfileobj(more, whole)


def initramfs_arguments(options, image, models, console, monitor):
    """QEMU's command line for an initramfs, without virtme-ng."""
    init = f"{TOP}/scripts/lib/guest-init"
    arguments = [f"{TOP}/scripts/lib/vm-qemu", "-machine", "q35,memory-backend=mem",
                 "-object", f"memory-backend-memfd,id=mem,size={options.mem},share=on",
                 "-m", options.mem, "-smp", str(options.cpus), "-display", "none",
                 "-kernel", image, "-initrd", "/run/initramfs",
                 "-append", " ".join(kernel_arguments(options) + [f"rdinit={init}"]),
                 "-chardev", f"socket,id=monitor,fd={monitor}", "-qmp", "chardev:monitor"]
    if options.kvm:
        arguments += ["-accel", "kvm", "-cpu", "host"]
    # The kernel leaves these ports alone as it goes to sleep (to the disk it does not: see
    # ROOT_SLOT): QEMU keeps their state, and says so where the slot is PCI Express.
    arguments += ["-device", "pcie-root-port,id=express",
                  "-device", "virtio-serial-pci,id=ports,bus=express,x-pcie-pm-no-soft-reset=on"]
    # virtme-ng's names of the ports; the last two are files in the other kind of guest.
    arguments += ["-chardev", "stdio,id=stdin,signal=on,mux=off"]
    ports = {"stdin": "", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
             "dev_stdout": "/proc/self/fd/1", "dev_stderr": "/proc/self/fd/2",
             "status": f"{VM}/status", "trouble": f"{VM}/trouble"}
    for name, path in ports.items():
        if path:
            arguments += ["-chardev", f"file,id={name},path={path}"]
        arguments += ["-device", f"virtserialport,bus=ports.0,chardev={name},name=virtme.{name}"]
    return arguments + qemu_arguments(options, models, console)


class Waker:
    """Wakes a sleeping guest through QEMU's monitor, as its power button would."""

    def __init__(self):
        self.socket, self.qemu = socket.socketpair()
        self.socket.sendall(b'{"execute": "qmp_capabilities"}')
        self.heard = b""

    def listen(self):
        """Reads what QEMU says, and wakes the guest if it has gone to sleep. False at the end."""
        data = self.socket.recv(65536)
        self.heard += data
        *lines, self.heard = self.heard.split(b"\n")
        for line in lines:
            if json.loads(line).get("event") == "SUSPEND":
                self.socket.sendall(b'{"execute": "system_wakeup"}')
        return bool(data)


def ask_for_another_boot():
    """Tells scripts/vm to boot once more."""
    with open(f"{TOP}/build/lock/vm-again-{os.environ['MOOR_PID']}", "w", encoding="utf-8"):
        pass


def read_once(name):
    """Reads a file that the guest may have written."""
    try:
        with open(f"{VM}/{name}", encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def pass_on(source, sink):
    """Copies what can be read from source now to sink. False at the end of either."""
    data = os.read(source, 65536)
    try:
        left = data
        while left:
            left = left[os.write(sink, left):]
    except BrokenPipeError:
        return False
    return bool(data)


def run_guest(options, arguments, models, console, waker):
    """Runs virtme-run or QEMU until it ends, the time is over or a model dies. Returns why."""
    pipes = {}
    monitor = [waker.socket] if waker else []
    if options.command is None:
        # virtme-ng sends the kernel's messages to standard error.
        with open(console, "wb") as file:
            guest = subprocess.Popen(arguments, stderr=file)
    else:
        # Not our own output: QEMU opens what it is given anew, which truncates
        # a file that it was redirected to.
        stdin = sys.stdin if sys.stdin and not sys.stdin.isatty() else subprocess.DEVNULL
        guest = subprocess.Popen(arguments, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 pass_fds=[waker.qemu.fileno()] if waker else [])
        pipes = {guest.stdout.fileno(): 1, guest.stderr.fileno(): 2}
    ends = {os.pidfd_open(guest.pid): "guest"}
    ends.update((os.pidfd_open(model.process.pid), "model") for model in models)
    deadline = time.monotonic() + options.timeout if options.timeout else None
    why = None
    while True:
        # After that, only what is in the pipes already is copied.
        left = 0 if why else deadline and max(0, deadline - time.monotonic())
        readable, _, _ = select.select(list(pipes) + ([] if why else list(ends) + monitor), [], [], left)
        if monitor and monitor[0] in readable and not waker.listen():
            monitor = []
        for pipe in [fd for fd in readable if fd in pipes]:
            if not pass_on(pipe, pipes[pipe]):
                del pipes[pipe]
        if why and not readable:
            break
        ended = [ends[fd] for fd in readable if fd in ends]
        if ended:
            why = "guest" if "guest" in ended else "model"
        elif not readable:
            why = "timeout"
    if why == "guest":
        guest.wait()
    return why


def verdict(options, why, models, console, qemu_log):
    """The exit status, and the reasons for it if it is not the command's own.

    Raises NotRun if the guest did not get as far as the command.
    """
    trouble, foreign = kernel_trouble(console)
    # For who sums up several boots.
    with open(f"{os.path.dirname(console)}/trouble", "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in trouble)
    if foreign:
        say(f"{foreign} data races of the rest of the kernel are in its log")
    if trouble:
        say("\n  ".join(["guest kernel reported a problem:"] + trouble))
    reasons = [death for death in (model.death() for model in models) if death]
    if lost_patch(options, trouble):
        reasons.append("a breakpoint outside the driver: patched code and emulated processors, it seems")
        if not has_begun(console):
            ask_for_another_boot()
    if trouble or reasons:
        return GUEST_TROUBLE, reasons
    status = read_once("status")
    if status:
        return int(status), []
    if why == "timeout":
        return TIMED_OUT, [f"timeout: the guest was ended after {options.timeout:g} s (--timeout)"]
    reason = read_once("trouble")
    if "did not start in time" in reason:
        ask_for_another_boot()
    if reason:
        raise NotRun(f"guest not ready for the command: {reason}")
    if options.command is None:
        return 0, ["the guest was ended"]
    if not has_begun(console):
        raise NotRun(f"the guest did not start; QEMU: {last_line(qemu_log)}")
    return GUEST_TROUBLE, ["the guest ended before the command did, without a word from its kernel"]


def make_log_folder(options):
    """The folder for this run's logs; those of old runs are removed."""
    if options.log:
        return options.log
    everything = f"{TOP}/build/log"
    # Their names are in the order of time, in January too.
    log = f"{everything}/vm-{time.strftime('%Y%m%d-%H%M%S')}-{os.environ['MOOR_PID']}"
    os.makedirs(log)
    old = sorted(name for name in os.listdir(everything) if name.startswith("vm-"))
    for name in old[:-KEPT_LOGS]:
        shutil.rmtree(f"{everything}/{name}", ignore_errors=True)
    return log


def boot(options, log):
    """Runs the guest. Returns the exit status, and the reasons for it as verdict() does."""
    # For virtme-ng's sockets: /run is this namespace's own, and dies with it.
    os.environ["TMPDIR"] = "/run"
    os.makedirs(VM, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "vm", VM], check=True)
    image, version = find_kernel(options.kernel)
    driver = find_driver(options, version)
    options.kvm = not (options.no_kvm or options.icount) and kvm_works()
    write_guest_files(options, driver, os.path.realpath(log))
    if options.initramfs:
        write_initramfs(image, version)
    # The guest sees the host's files: what it must not write is made read-only here, on
    # the one mount that becomes its root.
    subprocess.run(["mount", "--bind", f"{TOP}/scripts/lib/guest-init", VIRTME_INIT], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", "/"], check=True)
    models = [Model(options, index, log) for index in range(options.nics)]
    for model in models:
        model.wait_ready()
    console = f"{log}/console.log"
    os.environ["MOOR_QEMU_LOG"] = f"{log}/qemu.log"
    os.environ["MOOR_ROOT_SLOT"] = f"{ROOT_SLOT:x}"
    waker = Waker() if options.initramfs else None
    arguments = initramfs_arguments(options, image, models, console, waker.qemu.fileno()) if waker else \
        virtme_arguments(options, image, models, console)
    with open(f"{log}/command", "w", encoding="utf-8") as file:
        file.write(shlex.join(arguments) + "\n")
    if options.verbose or sys.stderr.isatty():
        say(f"booting Linux {version}, {options.nics or 'no'} NIC{'s' * (options.nics > 1)}, {'with KVM' if options.kvm else 'emulated: some 20 s'}"
            f"; logs in {shown(log)}")
    if options.command is None:
        say("in the guest, 'exit' ends it; Ctrl-A X does at any time")
    why = run_guest(options, arguments, models, console, waker)
    return verdict(options, why, models, console, os.environ["MOOR_QEMU_LOG"])


def main():
    """Returns the exit status: see scripts/vm."""
    try:
        options = parse_arguments(sys.argv[1:])
    except NotRun as reason:
        say(str(reason))
        return NOT_RUN
    log = make_log_folder(options)
    try:
        status, reasons = boot(options, log)
    except NotRun as reason:
        status, reasons = NOT_RUN, [str(reason)]
    for reason in reasons:
        say(reason)
    # For who sums up several boots.
    with open(f"{log}/reason", "w", encoding="utf-8") as file:
        file.writelines(reason + "\n" for reason in reasons)
    if status in (GUEST_TROUBLE, TIMED_OUT, NOT_RUN) and not read_once("status"):
        say(f"logs: {shown(log)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
