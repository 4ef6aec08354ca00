"""Compiles the device's part of a program by NVRTC; run in a process of its own by `gpuwork.programs.old_gpu`.

What NVRTC complains about is printed, and the exit status tells that it did.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any, Final

# Headers of the host's library, which the device's part may include in vain
_EMPTY: Final = (
    *("assert.h", "cassert", "cfloat", "climits", "cmath", "cstdio", "cstdlib", "cstring", "cuda_runtime.h", "float.h"),
    *("limits.h", "math.h", "stdio.h", "stdlib.h", "string.h", "unistd.h"),
)
_INTEGERS: Final = (
    "#pragma once\ntypedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;"
    " typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned uint32_t; typedef long int64_t;"
    " typedef unsigned long uint64_t;\n"
)
_HEADERS: Final = {
    **dict.fromkeys(_EMPTY, "\n"),
    **dict.fromkeys(("stdint.h", "cstdint"), _INTEGERS),
    **dict.fromkeys(("stddef.h", "cstddef"), "#pragma once\ntypedef unsigned long size_t;\n"),
}


def main(library: str, source: str, name: str, kernels: str, target: str, *options: str) -> None:
    """Compile `source` and write `source`.cubin, and the lowered names of kernels as `source`.json.

    Args:
        library: Path of NVRTC.
        name: By which complaints call it.
        kernels: Names, with commas between.
        target: Such as `sm_61`.
        options: More options for NVRTC.
    """
    nvrtc = ctypes.CDLL(library)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    program = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(_HEADERS))(*(text.encode() for text in _HEADERS.values()))
    names = (ctypes.c_char_p * len(_HEADERS))(*(header.encode() for header in _HEADERS))
    content = Path(source).read_bytes()
    _call(nvrtc, "CreateProgram", ctypes.byref(program), content, name.encode(), len(_HEADERS), texts, names)
    wanted = [kernel for kernel in kernels.split(",") if kernel]
    for kernel in wanted:
        _call(nvrtc, "AddNameExpression", program, kernel.encode())
    given = [f"--gpu-architecture={target}", "--std=c++17", "-default-device", "--disable-warnings", *options]
    status = nvrtc.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*map(str.encode, given)))
    if status:
        sys.stderr.write(_read(nvrtc, "ProgramLog", program).decode(errors="replace"))
        sys.exit(1)
    lowered = {}
    for kernel in wanted:
        found = ctypes.c_char_p()
        _call(nvrtc, "GetLoweredName", program, kernel.encode(), ctypes.byref(found))
        lowered[kernel] = (found.value or b"").decode()
    Path(f"{source}.json").write_text(json.dumps(lowered))
    Path(f"{source}.cubin").write_bytes(_read(nvrtc, "CUBIN", program))


def _read(nvrtc: Any, what: str, program: ctypes.c_void_p) -> bytes:  # noqa: ANN401  (a library)
    size = ctypes.c_size_t()
    _call(nvrtc, f"Get{what}Size", program, ctypes.byref(size))
    content = ctypes.create_string_buffer(size.value)
    _call(nvrtc, f"Get{what}", program, content)
    return content.raw


def _call(nvrtc: Any, name: str, *arguments: Any) -> None:  # noqa: ANN401
    status = getattr(nvrtc, f"nvrtc{name}")(*arguments)
    if status:
        sys.exit(f"nvrtc{name}: {nvrtc.nvrtcGetErrorString(status).decode(errors='replace')}")
