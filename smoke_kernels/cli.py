"""The program: run the kernels asked for, print one document, return the exit code."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from smoke_kernels.arguments import parse_request
from smoke_kernels.document import render_text, smoke_document
from smoke_kernels.errors import DeviceError, KernelError, SmokeError, UsageError

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
            _print_json(smoke_document(error=error.to_json()))
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
    """Import CUDA, run every kernel asked for and return the document.

    Raises:
        DeviceError: no GPU, or no numba-cuda.
        UsageError: a size that a kernel cannot take.
    """
    # Imported here, because importing numba takes half a second and decides between GPU and simulator.
    try:
        from smoke_kernels import backend, device, known_good, runners
    except ImportError as error:
        raise DeviceError(
            "numba-cuda cannot be imported",
            evidence=f"{type(error).__name__}: {error} ({sys.executable})",
            remedy="python3 -m pip install 'numba-cuda[cu13]>=0.30,<0.31' 'numpy<2.5' nvidia-ml-py   "
            "([cu12] for a driver before 580.65 or a GPU before Turing; neither for the simulator)",
        ) from error
    options = request.options
    if backend.SIMULATED and options.tolerance is not None:
        raise UsageError(
            "--tolerance cannot be used with a simulated rate",
            evidence=f"--tolerance {options.tolerance} on numba's simulator",
            remedy="omit --tolerance, or unset NUMBA_ENABLE_CUDASIM on a machine with a GPU",
        )
    if options.stand_for and not backend.SIMULATED:
        raise UsageError(
            "--stand-for is only for the simulator",
            evidence="--stand-for without the simulator",
            remedy=f"python3 -m smoke_kernels {request.kernels[0]} --simulate --stand-for {options.stand_for[0]}",
        )
    devices, results = [], []
    imported = 0.0
    for facts in device.each_device(options):
        imported = imported or time.perf_counter()
        devices.append(facts)
        for kernel in request.kernels:
            try:
                result = runners.runner(kernel)(options)
            except SmokeError:
                raise
            except Exception as error:  # noqa: BLE001  (numba and the driver raise many types; the others still run)
                result = _failed(kernel, error, simulated=backend.SIMULATED)
            judged = known_good.with_judgement(result, facts, options.tolerance)
            results.append({**judged.to_json(), "gpu": facts["uuid"]})
    seconds = {"import": imported - started, "total": time.perf_counter() - started}
    return smoke_document(devices=devices, results=results, seconds=seconds)


def _failed(kernel: str, error: Exception, *, simulated: bool) -> KernelResult:
    """Return the result of a kernel that raised; it has not passed."""
    from smoke_kernels.result import KernelResult

    failure = KernelError(
        f"{kernel} did not run to completion",
        evidence=f"{type(error).__name__}: {' '.join(str(error).split())[:1000]}",
        remedy="nvidia-smi; dmesg | grep -i xid",
    )
    _print_error(failure)
    return KernelResult(kernel=kernel, simulated=simulated, error=failure.to_json())


def _print_error(error: SmokeError) -> None:
    sys.stderr.write(f"error: {error.what}\n  evidence: {error.evidence}\n  next:     {error.remedy}\n")


def _print_json(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report, allow_nan=False) + "\n")
