"""CUDA programs, as `program` and the verbs below it tell them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.core.relay import HERE
from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.host.program_check import CheckedProgram
    from gpuprov.planes.work.program_answers import ProgramRow, ProgramRun
    from gpuprov.planes.work.queue_page import NodePage


def program_check_document(checked: CheckedProgram, *, host: str) -> dict[str, Any]:
    """A program without faults."""
    return document(
        "program-check",
        host=host,
        hash=checked.hash,
        name=checked.name,
        program_version=checked.version,
        files=list(checked.files),
        rows=checked.rows,
        left_out=list(checked.left_out),
    )


def program_run_document(run: ProgramRun, *, cluster: str | None, host: str) -> dict[str, Any]:
    """The result of a run; no cluster and no jobs on this machine."""
    return document("program-run", host=host, cluster=cluster, id=run.id, result=dict(run.result))


def programs_document(programs: Sequence[ProgramRow], *, cluster: str, host: str) -> dict[str, Any]:
    """Programs that are registered, or the one that no longer is."""
    rows = [{**asdict(program), "built_for": list(program.built_for)} for program in programs]
    return document("program-list", host=host, cluster=cluster, programs=rows)


def program_page_document(page: NodePage, *, port: int, cluster: str, host: str) -> dict[str, Any]:
    """Where Dask's page of a run can be opened."""
    return document("program-page", host=host, cluster=cluster, node=page.node, address=f"http://{HERE}:{port}/status")
