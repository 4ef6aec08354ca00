"""`smoke`: what one kernel gave in each place."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.verify.smoke_result import KernelName, SmokeResult


def smoke_run_document(kernel: KernelName, results: Sequence[SmokeResult], *, host: str) -> dict[str, Any]:
    """A result for each node, or for `local`."""
    return document(
        "smoke-run",
        host=host,
        kernel=kernel,
        passed=all(result.passed for result in results),
        simulated=any(result.simulated for result in results),
        results=[asdict(result) for result in results],
    )
