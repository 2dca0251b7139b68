#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""Page requests that the NIC makes up: each field at the ends of its range, next to the
right value, and at random; for QPs, keys and addresses that exist or do not, with unknown
tokens, again and again. They are answered or ignored, nothing else of the process is
touched, and real page requests still work. Also answers that the NIC does not take, or does
not complete."""

import os
import random
import sys
import time

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

FIELDS = {"flags": 8, "token": 32, "key": 32, "qpn": 32, "addr": 64, "length": 32}
RANDOM = 300
WRITE = 1
SEED = int(os.environ.get("MOOR_LIE_SEED", time.time_ns() % 100000))
TIMEOUT_MS = 1000


def commands():
    """The number of commands that the NIC has fetched."""
    return device.status("commands")


def say(request):
    """Has the NIC make a page request. False if its limit of requests is reached."""
    try:
        guest.control("page-request " + " ".join(str(request[field]) for field in FIELDS))
    except RuntimeError:
        return False
    return True


class Asker:
    """Makes up page requests, and counts the answers."""

    def __init__(self, pager):
        pager.start("names")
        names = map(int, pager.process.stdout.readline().split())
        self.qpn, self.peer, key, addr, length, self.foreign, self.pinned = names
        pager.result()
        self.truth = {"flags": WRITE, "token": 0x5eed, "key": key, "qpn": self.qpn,
                      "addr": addr, "length": length}

    def answers(self, **lies):
        """Makes up one request, then an honest one. Is the first answered exactly if its QP
        exists, and the second in any case?"""
        request = self.truth | lies
        due = int(request["qpn"] in (self.qpn, self.peer))
        before = commands()
        said = say(request) and guest.wait_for(lambda: commands() == before + due)
        said = said and say(self.truth | {"qpn": self.peer}) and \
            guest.wait_for(lambda: commands() > before + due)
        return said and commands() == before + due + 1


def ends(truth, bits):
    """Wrong values for a field: the ends of its range, and values next to the right one."""
    top = (1 << bits) - 1
    values = {0, 1, top, top - 1, top >> 1, (top >> 1) + 1, truth + 1, truth - 1, truth + 4096,
              truth ^ 1 << (bits - 1)}
    return sorted({value & top for value in values} - {truth})


def boundaries(pager, asker):
    """One field at a time is wrong."""
    for field, bits in FIELDS.items():
        values = ends(asker.truth[field], bits)
        # No page may have to be added, for that would take a command more.
        guest.ok(pager("advise") == 0, f"{field}: all pages are there")
        wrong = [f"{value:#x}" for value in values if not asker.answers(**{field: value})]
        guest.ok(not wrong, f"{field}: {len(values)} values, each answered if there is such a QP",
                 " ".join(wrong))
        pager.moves(field)


def known(pager, asker):
    """Objects that exist but do not belong to the QP; and the same token twice."""
    pager("advise")
    for name, key in (("another domain's", asker.foreign), ("pinned memory's", asker.pinned)):
        guest.ok(asker.answers(key=key), f"a key that is {name}: answered once")
    for _ in range(2):
        guest.ok(asker.answers(token=0x7abc), "a token, again and again: answered once each")
    pager.moves("known")


def any_values(pager, asker):
    """All fields are wrong at once, faster than the driver can answer."""
    said = 0
    for _ in range(RANDOM):
        request = dict(asker.truth)
        for field, bits in FIELDS.items():
            if random.randrange(2):
                request[field] = random.choice([random.getrandbits(bits), *ends(request[field], bits)])
        request["qpn"] = random.choice([request["qpn"], asker.qpn, asker.peer])
        said += say(request)
    pager.moves(f"{said} at random")


def while_parked(pager, asker):
    """Both halves of a QP wait for a page while requests are made up for them."""
    guest.ok(pager("park") == 0, "both halves of a QP wait for a page")
    said = sum(say(asker.truth | {"qpn": asker.peer, "flags": number % 4, "token": number,
                                  "addr": random.choice(ends(asker.truth["addr"], 64))})
               for number in range(RANDOM))
    guest.ok(pager("nothing") == 0, f"{said} lies are told about them: they wait")
    guest.ok(pager("serve") == 0 and pager("parked_done") == 0, "the pages come: both go on")


def refused(where, status):
    """The NIC refuses the answer to a page request."""
    name = f"PAGE_RESPONSE ends with {status}"
    before = device.counts()
    with device.Pager() as pager:
        fault = device.Fault(f"fail PAGE_RESPONSE {status}")
        fault.arm()
        guest.ok(pager("touch") == 0 and guest.wait_for(lambda: device.fired() > fault.before),
                 f"{name}: a page is asked for")
        stops = status != "BAD_INDEX"
        guest.ok(guest.wait_for(lambda: device.has_bus_mastering(where) != stops),
                 f"{name}: the device is {'stopped' if stops else 'believed: nobody waits any more'}")
        guest.ok(pager("gone" if stops else "nothing") == 0,
                 f"{name}: {'nothing can be had of it' if stops else 'who waits, waits'}")
        code, output = pager.end()
        guest.ok(code == 0, f"{name}: the process ends as it likes", output)
    guest.ok(device.has_bus_mastering(where) != stops, f"{name}: and so it stays")
    device.leaves_nothing(before, name)
    device.rebind(where, name)


def unanswered(where):
    """The NIC does not complete the answer to a page request."""
    name = "PAGE_RESPONSE is not answered"
    before = device.counts()
    guest.write(device.debugfs("command_timeout_ms"), str(TIMEOUT_MS))
    said = device.dmesg_count("stopped: a command timed out")
    with device.Pager() as pager:
        guest.control("drop PAGE_RESPONSE")
        guest.ok(pager("touch") == 0, f"{name}: a page is asked for")
        guest.ok(guest.wait_for(lambda: device.dmesg_count("stopped: a command timed out") > said) and
                 not device.has_bus_mastering(where), f"{name}: the device is stopped, and a line says why")
        guest.ok(pager("gone") == 0, f"{name}: nothing can be had of it")
        code, output = pager.end()
        guest.ok(code == 0, f"{name}: the process ends as it likes", output)
    device.leaves_nothing(before, name)
    device.rebind(where, name)


def forgets_not(where, rule):
    """A page is unmapped, and the NIC refuses MR_INVALIDATE or does not answer it."""
    name = f"{rule.partition(' ')[2]} {'is not answered' if rule.startswith('drop') else ''}".strip()
    before = device.counts()
    guest.write(device.debugfs("command_timeout_ms"), str(TIMEOUT_MS))
    with device.Pager() as pager:
        pager.moves(name)
        guest.control(rule)
        guest.ok(pager("drop") == 0, f"{name}: the page goes all the same")
        guest.ok(not device.has_bus_mastering(where), f"{name}: the device was stopped before")
        guest.ok(pager("gone") == 0, f"{name}: nothing can be had of it")
        code, output = pager.end()
        guest.ok(code == 0, f"{name}: the process ends as it likes", output)
    device.leaves_nothing(before, name)
    device.rebind(where, name)


def main():
    """Runs the tests."""
    device.setup()
    random.seed(SEED)
    print(f"#   MOOR_LIE_SEED={SEED}")
    where = device.address()
    before = device.counts()
    stops = device.dmesg_count("stopped: ")
    with device.Pager() as pager:
        asker = Asker(pager)
        boundaries(pager, asker)
        known(pager, asker)
        any_values(pager, asker)
        while_parked(pager, asker)
        code, output = pager.end()
        guest.ok(code == 0, "the process ends", output)
    guest.ok(device.dmesg_count("stopped: ") == stops and device.has_bus_mastering(where),
             "lies about pages stop nobody")
    device.leaves_nothing(before, "lies about pages")
    for status in device.STATUSES:
        refused(where, status)
        forgets_not(where, f"fail MR_INVALIDATE {status}")
    unanswered(where)
    forgets_not(where, "drop MR_INVALIDATE")
    guest.ok(*guest.moves_data("after all that"))
    guest.done()


main()
