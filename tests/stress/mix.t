#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
"""The stress mix, for ten minutes or MOOR_STRESS_SECONDS."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../guest/lib"))
import guest  # pylint: disable=wrong-import-position
import stress  # pylint: disable=wrong-import-position

stress.mix(int(os.environ.get("MOOR_STRESS_SECONDS", "600")))
guest.done()
