"""Which function runs which kernel; importing a kernel's module defines its device code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoke_kernels.options import Options
    from smoke_kernels.result import KernelResult


def runner(kernel: str) -> Callable[[Options], KernelResult]:
    """Return the function that runs a kernel; `kernel` is one of arguments.KERNELS."""
    if kernel == "matmul":
        from smoke_kernels.matmul.run import run_matmul

        return run_matmul
    if kernel == "anneal":
        from smoke_kernels.anneal.run import run_anneal

        return run_anneal
    from smoke_kernels.membw.run import run_membw

    return run_membw
