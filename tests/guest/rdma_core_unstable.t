#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""libibverbs of Debian unstable, and the provider built for it: 'make provider-unstable'."""

import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

BUILT = f"{guest.TOP}/build/provider-unstable"
PORT = 18600
# Tests of what differs from version to version: contexts, also imported ones, CQs, new calls.
PROGRAMS = ("test_data", "test_import", "test_queues", "test_uc", "test_windows", "test_binds", "test_reg_mr_ex")


def listens(port):
    """Does a process listen at the port?"""
    wanted = f":{port:04X}"
    return any(fields[1].endswith(wanted) and fields[3] == "0A"
               for path in ("/proc/net/tcp", "/proc/net/tcp6")
               for fields in (line.split() for line in guest.read(path).splitlines()[1:]))


def pingpong(*options):
    """Both sides succeed, and say that the data is right."""
    command = [f"{BUILT}/ibv_rc_pingpong", "-d", "moor0", "-g", "0", "-n", "200", "-c", "-p", str(PORT), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        if not guest.wait_for(lambda: listens(PORT) or server.poll() is not None):
            server.kill()
        status, output = guest.run(*command, "localhost")
        if status:
            server.kill()
        output += server.communicate()[0].decode()
        # A pingpong that finds wrong data says so, and succeeds.
        return status == 0 and server.returncode == 0 and "invalid data" not in output, output


if not os.path.exists(f"{BUILT}/libmoor.so.1"):
    print("1..0 # SKIP build/provider-unstable is not there ('make provider-unstable')")
    sys.exit(0)

os.environ["LD_LIBRARY_PATH"] = BUILT
STATUS, OUTPUT = guest.run(f"{BUILT}/ibv_devinfo")
guest.ok("moor0" not in OUTPUT, "without its own provider it does not know the NIC", OUTPUT)

os.environ["IBV_DRIVERS"] = f"{BUILT}/libmoor"
LOADED = glob.glob(f"{BUILT}/libmoor-rdmav*.so")
STATUS, OUTPUT = guest.run(f"{BUILT}/ibv_devinfo")
guest.ok(STATUS == 0 and "moor0" in OUTPUT, f"ibv_devinfo, with {os.path.basename(LOADED[0])}", OUTPUT)
for options in [], ["-U"]:
    PASSED, OUTPUT = pingpong(*options)
    guest.ok(PASSED, " ".join(["ibv_rc_pingpong -c", *options]), OUTPUT)
for program in PROGRAMS:
    STATUS, OUTPUT = guest.run(f"{guest.PROGRAMS}/{program}")
    guest.ok(STATUS == 0, program, OUTPUT)
guest.done()
