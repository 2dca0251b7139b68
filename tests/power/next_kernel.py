# SPDX-License-Identifier: GPL-2.0
"""What tests/power/next-kernel runs in the guest: python3 next_kernel.py kexec|crash.

Runs in two kernels, one after the other, with the NIC in full flight in the first. The
second looks at what the NIC is doing before it loads the driver.
"""

import ctypes
import glob
import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/../device/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

NEXT = "/.moor-vm/next"  # from scripts/vm --initramfs
SECOND = "moor.second"  # on the second kernel's command line
SYS_KEXEC_FILE_LOAD = 320
KEXEC_FILE_ON_CRASH = 2
REBOOT_KEXEC = 0x45584543
LOOKS = 100
# DMA of an idle NIC for each look at it: its dozing word.
IDLE_ACCESSES = 10

libc = ctypes.CDLL(None, use_errno=True)


def function():
    """PCI address of the NIC, which must not be bound to a driver."""
    for path in glob.glob("/sys/bus/pci/devices/*"):
        if guest.read(f"{path}/vendor") == "0x1af4\n" and guest.read(f"{path}/device") == "0x10f0\n":
            return os.path.basename(path)
    raise RuntimeError("no NIC")


def load_driver():
    """Loads the driver with its dependencies, and waits for GIDs."""
    depends = guest.run("modinfo", "-F", "depends", guest.MODULE)[1].strip().split(",")
    guest.run("modprobe", "-q", "-a", "ib_uverbs", *filter(None, depends))
    code, output = guest.run("insmod", guest.MODULE)
    guest.ok(code == 0 and guest.bring_up(), "the driver brings the NIC up", output)


def load_next_kernel(on_crash):
    """kexec_file_load(2) of this very kernel: 0 or the errno."""
    words = [word for word in guest.read("/proc/cmdline").split() if not word.startswith("crashkernel=")]
    words += [SECOND] + (["nr_cpus=1", "reset_devices"] if on_crash else [])
    line = " ".join(words).encode() + b"\0"
    with open(f"{NEXT}/kernel", "rb") as kernel, open(f"{NEXT}/initramfs", "rb") as root:
        code = libc.syscall(SYS_KEXEC_FILE_LOAD, kernel.fileno(), root.fileno(),
                            ctypes.c_ulong(len(line)), line,
                            ctypes.c_ulong(KEXEC_FILE_ON_CRASH if on_crash else 0))
    return ctypes.get_errno() if code else 0


def first(how):
    """In the first kernel: data moves and memory is registered when it is left."""
    load_driver()
    traffic = device.Program("traffic")
    flood = device.Program("flood")
    before = device.status("dma")
    guest.ok(guest.wait_for(lambda: device.status("dma") > before + LOOKS * IDLE_ACCESSES),
             "data moves, and a hundred threads register")
    guest.ok(traffic.process.poll() is None and flood.process.poll() is None, "by two processes")
    err = load_next_kernel(how == "crash")
    guest.ok(err == 0, "the next kernel is loaded", os.strerror(err))
    guest.plan()
    if err:
        sys.exit(1)
    if how == "crash":
        guest.write("/proc/sysrq-trigger", "c")
    libc.reboot(REBOOT_KEXEC)


def grown():
    """How much DMA the NIC does while it is being looked at."""
    before = device.status("dma")
    for _ in range(LOOKS):
        now = device.status("dma")
    return now - before


def stopped(where):
    """After a shutdown: the NIC does nothing."""
    print(f"# before the driver: dma={device.status('dma')}")
    guest.ok(not device.has_bus_mastering(where) and not device.status("bus-master"),
             "bus mastering is off")
    guest.ok(not device.status("enabled"), "the NIC has been reset")
    guest.ok(grown() == 0, "there is no DMA")


def in_flight(where):
    """After a crash: the NIC works for a kernel that has gone.

    A virtio_pci that is built in has tried every device of vendor 1af4 by now, and left
    those that are not its own disabled, without bus mastering. No driver does that where
    virtio_pci is a module; so bus mastering is put back, and the NIC goes on.
    """
    guest.ok(device.status("enabled"), "the NIC is still enabled")
    device.set_bus_mastering(where)
    guest.ok(device.has_bus_mastering(where) and device.status("bus-master"), "bus mastering is on")
    accesses = grown()
    print(f"# {accesses} accesses to memory, {LOOKS} looks")
    if guest.has_iommu():
        guest.ok(accesses > 10 * LOOKS * IDLE_ACCESSES or device.status("fatal"),
                 "it moves data of a kernel that has gone, or the IOMMU has cut it off from it")
    else:
        guest.ok(accesses > 10 * LOOKS * IDLE_ACCESSES, "it moves data of a kernel that has gone")


def second(how):
    """In the second kernel."""
    where = function()
    (in_flight if how == "crash" else stopped)(where)
    load_driver()
    accesses = grown()
    print(f"# {accesses} accesses to memory, {LOOKS} looks")
    guest.ok(accesses <= LOOKS * IDLE_ACCESSES, "what was under way is over")
    before = device.counts()
    guest.ok(*guest.moves_data("in the next kernel"))
    for test in ("test_data", "test_lifetime", "test_rereg"):
        code, output = guest.run(f"{guest.PROGRAMS}/{test}")
        guest.ok(code == 0, f"in the next kernel: {test}", output)
    device.leaves_nothing(before, "in the next kernel")
    guest.done()


device.setup()
(second if SECOND in guest.read("/proc/cmdline").split() else first)(sys.argv[1])
