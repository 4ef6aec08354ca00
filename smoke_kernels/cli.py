"""The program: run the kernels asked for, print one document, return the exit code."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from smoke_kernels.arguments import parse_request
from smoke_kernels.document import document, render_text
from smoke_kernels.errors import KernelError, SmokeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoke_kernels.arguments import Request
    from smoke_kernels.result import KernelResult

EXIT_PASSED = 0
EXIT_WRONG = 1
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Run the program on `arguments` (without its name) and return its exit code."""
    started = time.perf_counter()
    # Known before parsing, so that a program that asked for JSON gets JSON about its bad arguments too.
    as_json = "--json" in arguments
    report: dict[str, Any] = {}
    try:
        request = parse_request(arguments)
        if request.simulate:
            os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
        report = _run(request, started)
    except SmokeError as error:
        _print_error(error)
        if as_json:
            _print_json(document(error=error.to_json()))
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return EXIT_INTERRUPTED
    if as_json:
        _print_json(report)
    else:
        sys.stdout.write(render_text(report))
    return EXIT_PASSED if report["passed"] else EXIT_WRONG


def _run(request: Request, started: float) -> dict[str, Any]:
    """Import CUDA, run every kernel asked for and return the document."""
    # Imported here, because importing numba takes half a second and decides between GPU and simulator.
    from smoke_kernels.device import describe_device  # noqa: PLC0415

    device = describe_device()
    imported = time.perf_counter()
    results = [_run_kernel(kernel, request) for kernel in request.kernels]
    seconds = {"import": imported - started, "total": time.perf_counter() - started}
    return document(device=device, results=[result.to_json() for result in results], seconds=seconds)


def _run_kernel(kernel: str, request: Request) -> KernelResult:
    """Run one kernel; whatever CUDA raises becomes a result that has not passed."""
    from smoke_kernels import backend  # noqa: PLC0415
    from smoke_kernels.result import KernelResult  # noqa: PLC0415
    from smoke_kernels.runners import runner  # noqa: PLC0415

    try:
        return runner(kernel)(request.options)
    except SmokeError:
        raise
    except Exception as error:  # noqa: BLE001  (numba and the driver raise many types; the other kernels still run)
        failure = KernelError(
            f"{kernel} did not run to its end",
            evidence=f"{type(error).__name__}: {' '.join(str(error).split())[:1000]}",
            remedy="nvidia-smi; dmesg | grep -i xid",
        )
        _print_error(failure)
        return KernelResult(kernel=kernel, simulated=backend.SIMULATED, error=failure.to_json())


def _print_error(error: SmokeError) -> None:
    sys.stderr.write(f"error: {error.what}\n  evidence: {error.evidence}\n  next:     {error.remedy}\n")


def _print_json(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report, allow_nan=False) + "\n")
