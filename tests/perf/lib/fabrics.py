# SPDX-License-Identifier: GPL-2.0
"""NVMe over fabrics in the guest, both its ends: the kernel's own target and hosts."""

import contextlib
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, f"{TOP}/tests/guest/lib")
import guest  # pylint: disable=wrong-import-position

CONFIG = "/sys/kernel/config/nvmet"
HOST = "hostnqn=moor-host,hostid=11111111-2222-3333-4444-555555555555"


class Disk:
    """A subsystem of one namespace, at a port of its own, and the disk that a host makes of it."""

    def __init__(self, name, memory, address=None):
        """Over RDMA at an address (and a port: a pair); without one, over no network
        (nvme-loop)."""
        self.name = name
        self.memory = memory
        self.address = address
        self.subsystem = f"{CONFIG}/subsystems/{name}"

    def _port(self):
        """The configfs folder of the target's port."""
        return f"{CONFIG}/ports/{self.address[1] if self.address else 1}"

    def offer(self):
        """Sets up the target, open to every host."""
        guest.mount_configfs()
        os.makedirs(f"{self.subsystem}/namespaces/1")
        guest.write(f"{self.subsystem}/attr_allow_any_host", "1")
        guest.write(f"{self.subsystem}/namespaces/1/device_path", self.memory)
        guest.write(f"{self.subsystem}/namespaces/1/enable", "1")
        os.makedirs(self._port())
        values = [("trtype", "loop")]
        if self.address:
            values = [("traddr", self.address[0]), ("trtype", "rdma"), ("trsvcid", str(self.address[1])),
                      ("adrfam", "ipv4")]
        for name, value in values:
            guest.write(f"{self._port()}/addr_{name}", value)
        os.symlink(self.subsystem, f"{self._port()}/subsystems/{self.name}")

    def withdraw(self):
        """Removes all of the target, also if it was made only in part."""
        for action, what in ((os.unlink, f"{self._port()}/subsystems/{self.name}"),
                             (os.rmdir, self._port()),
                             (os.rmdir, f"{self.subsystem}/namespaces/1"),
                             (os.rmdir, self.subsystem)):
            with contextlib.suppress(FileNotFoundError):
                action(what)

    def connect(self):
        """Connects the host. Returns the name of its disk, or None."""
        where = "transport=loop"
        if self.address:
            where = f"transport=rdma,traddr={self.address[0]},trsvcid={self.address[1]},ctrl_loss_tmo=30"
        guest.write("/dev/nvme-fabrics", f"{where},nqn={self.name},{HOST}")
        return self.disk() if guest.wait_for(self.disk) else None

    def disk(self):
        """The disk's name, while the host has it."""
        for name in os.listdir("/sys/block"):
            with contextlib.suppress(OSError):
                # A path to the disk, such as nvme0c0n1, cannot be opened.
                if re.fullmatch(r"nvme\d+n1", name) and \
                        guest.read(f"/sys/block/{name}/device/subsysnqn").strip() == self.name:
                    return name
        return None

    def controller(self):
        """The host's controller in sysfs, while it exists."""
        for path in glob.glob("/sys/class/nvme/nvme*"):
            with contextlib.suppress(OSError):
                if guest.read(f"{path}/subsysnqn").strip() == self.name:
                    return path
        return None

    def disconnect(self):
        """Disconnects the host. Returns whether that worked."""
        controller = self.controller()
        if controller:
            with contextlib.suppress(FileNotFoundError):
                guest.write(f"{controller}/delete_controller", "1")
        return guest.wait_for(lambda: not self.controller() and not self.disk())
