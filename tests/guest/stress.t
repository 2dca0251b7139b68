#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""The stress mix, in short. tests/stress/mix.t is the long one."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position
import stress  # pylint: disable=wrong-import-position

# 'make check' runs this without and with an IOMMU; the latter matters more.
stress.mix(15 if guest.has_iommu() else 5)
guest.done()
