#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Unreliable connections over a port that loses packets: the sender succeeds whatever
becomes of a message, and each message that arrives is right in every byte."""

import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

MESSAGES = 100


class Sender(device.Program):
    """The program uc_sender: a line is answered by numbers."""

    def __init__(self):
        super().__init__("uc_sender")

    def __call__(self, word):
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()
        return [int(number) for number in self.process.stdout.readline().split()]


def lost():
    """Packets that the port took since the NIC was started."""
    return int(dict(word.split("=") for word in guest.control("traffic").split())["lost"])


def messages(send, impairment, expected, name):
    """Sends messages over such a port; @expected must hold for the counts of those that arrive."""
    before = lost()
    guest.control(f"impair {impairment}")
    completed, = send(f"send {MESSAGES}")
    guest.control("impair off")
    arrived, spoilt = send("count")
    guest.ok(completed == MESSAGES, f"{name}: all completed with success", f"{completed}")
    guest.ok(spoilt == 0, f"{name}: what arrived is whole and in order", f"{spoilt} are not")
    guest.ok(expected(arrived), f"{name}: how many arrived", f"{arrived}")
    guest.ok((lost() > before) == (arrived < MESSAGES), f"{name}: the port lost the others")


device.setup()
with Sender() as sender:
    messages(sender, "off", lambda arrived: arrived == MESSAGES, "nothing is lost")
    messages(sender, "lose=20", lambda arrived: 0 < arrived < MESSAGES, "a fifth of the packets is lost")
    messages(sender, "lose=100", lambda arrived: arrived == 0, "everything is lost")
    messages(sender, "off", lambda arrived: arrived == MESSAGES, "nothing is lost any more")
    STATUS, OUTPUT = sender.end()
    guest.ok(STATUS == 0, "no event, and nothing is left behind", OUTPUT)
guest.done()
