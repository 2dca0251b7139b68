# SPDX-License-Identifier: GPL-2.0
"""
What pyverbs' tests of dma-bufs get in place of pyverbs' own, which asks a GPU for them:
memory of the system's heap. (Such an object of pyverbs 56.1 cannot be registered
at all: it has no method add_ref() that Python could call.)
"""

import fcntl
import os
import struct

import pyverbs.mr
from pyverbs.pyverbs_error import PyverbsRDMAError

HEAP = '/dev/dma_heap/system'
DMA_HEAP_IOCTL_ALLOC = 0xc0184800


class DmaBuf(int):
    """A dma-buf; the number is its file descriptor, which serves to map it, too."""
    map_offset = 0

    def __new__(cls, size, gpu=0, gtt=0):
        del gpu, gtt
        try:
            heap = os.open(HEAP, os.O_RDWR | os.O_CLOEXEC)
            allocation = struct.pack('=QIIQ', size, 0, os.O_RDWR | os.O_CLOEXEC, 0)
            answer = fcntl.ioctl(heap, DMA_HEAP_IOCTL_ALLOC, allocation)
            os.close(heap)
        except OSError as error:
            raise PyverbsRDMAError(f'{HEAP}: no {size} bytes', error.errno) from error
        return super().__new__(cls, struct.unpack('=QIIQ', answer)[1])

    def __del__(self):
        os.close(self)

    @property
    def drm_fd(self):
        """The descriptor by which the memory is mapped."""
        return int(self)


class DmaBufMR(pyverbs.mr.DmaBufMR):
    """An MR of a dma-buf of the heap, unless a dma-buf is given."""

    def __init__(self, pd, length, access, dmabuf=None, offset=0, gpu=0, gtt=0):
        if dmabuf is None:
            dmabuf = DmaBuf(length + offset, gpu, gtt)
        super().__init__(pd, length, access, dmabuf, offset)


def stand_in(module):
    """Makes a module's tests use these classes instead of pyverbs' own."""
    if hasattr(module, 'DmaBufMR'):
        module.DmaBuf, module.DmaBufMR = DmaBuf, DmaBufMR
