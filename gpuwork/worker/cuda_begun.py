"""Whether this process has used CUDA, which then works in no process that is forked from it."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_DRIVER: Final = "libcuda.so.1"
_NOT_INITIALIZED: Final = 3


def has_begun_cuda() -> bool:
    """Ask CUDA's driver, if it has been loaded; this neither loads nor begins it."""
    try:
        driver = ctypes.CDLL(_DRIVER, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != _NOT_INITIALIZED)
