"""`gpuprov anneal`: check, run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option, gpu_mode_option, typed_gpu_option
from gpuprov.cli.options import as_option
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import LINE, excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cli.session import Session
    from gpuprov.shapes.anneal import AnnealRun
    from gpuprov.spec.anneal_order import AnnealOrder

_FILES: Final = (
    click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=click.Path()),
    click.option(
        "--conf", "configurations", metavar="FILE", multiple=True, type=click.Path(),
        help="Settings, in YAML or HOCON; repeatable.",
    ),
    click.option("--chains", type=int, metavar="N", help="Number of chains, in place of thread_count."),
    click.option("--target", type=float, metavar="VALUE", help="Stop when a value is at or below this."),
)  # fmt: skip


@command(*_FILES)
def check(session: Session, /, **given: Any) -> Result:  # noqa: ANN401 - what click hands over, by name
    """Report all faults of models and configurations, each with its line. Nothing of a model is executed."""
    from gpuprov.project.anneal_check import check_anneal
    from gpuprov.shapes.anneal import AnnealChecked

    check_anneal(_read_files(given))
    return Result(document=AnnealChecked(host=session.host.name), text="no faults")


@command(
    *_FILES,
    click.option("--nodes", type=int, metavar="N", help="Divide the chains among N jobs.  [default: one for each GPU]"),
    click.option("--local", is_flag=True, help="Run on this machine, on each of its GPUs, without an engine."),
    click.option("--out", metavar="FOLDER", help="A new folder for the results.  [default: anneal-runs/TIME]"),
    click.option("--plot", metavar="FILE", help="Also draw the best value over the steps, for each chain, as SVG."),
    gpu_mode_option,
    as_option,
    cluster_option,
    engine_option,
)
def run(session: Session, /, **given: Any) -> Result:  # noqa: ANN401 - what click hands over, by name
    """Anneal each MODEL, a chain for each thread of the cluster's GPUs, and show the best value while chains run.

    All faults of the models are reported before anything is copied. FOLDER gets the best value and where it is, in
    best.json, and the states of all chains: best.npz, all.npz. Exits with 1 if a part failed or a chain has an error.
    """
    from msgspec import UNSET

    from gpuprov.core.report_file import ReportFile
    from gpuprov.project.local_packages import require_charts
    from gpuprov.shapes.base import changed

    _refuse_mixture(given, typed_gpu_option(session, given["gpu_mode"]))
    plot = None if given["plot"] is None else ReportFile(given["plot"], option="--plot", kind="plot")
    if plot is not None:
        require_charts("--plot")
    annealed = (_run_here if given["local"] else _run_in_cluster)(session, given, _out(given["out"]))
    if plot is not None and annealed.folder is not None:
        from gpuprov.render.anneal_chart import render_anneal_chart

        plot.write(render_anneal_chart(annealed.runs))
        session.reporter.note(f"written: {plot.path}")
    if any(run.simulated for run in annealed.runs):
        session.reporter.warn("SIMULATED: numba's simulator ran these chains; their rates say nothing about any GPU")
    runs = tuple(changed(run, series=UNSET) for run in annealed.runs)
    document = changed(annealed, host=session.host.name, runs=runs)
    text = "" if given["local"] else render_anneal_runs(annealed)
    return Result(document=document, text=text, code=annealed.exit_code)


def _run_in_cluster(session: Session, given: dict[str, Any], out: Path) -> AnnealRun:
    from gpuprov.core.waiting import SystemClock
    from gpuprov.stories.anneal import anneal_in_cluster

    return anneal_in_cluster(
        lambda: session.controller, session.cluster, _read_files(given), nodes=given["nodes"], out=out,
        reporter=session.reporter, clock=SystemClock(), person=given["person"],
    )  # fmt: skip


def _run_here(session: Session, given: dict[str, Any], out: Path) -> AnnealRun:
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.stories.anneal import anneal_here

    host = get_gpus(session.host, given["gpu_mode"] or "auto", reporter=session.reporter)
    return anneal_here(_read_files(given), out=out, gpus=host, quiet=session.as_json)


def _out(text: str | None) -> Path:
    from datetime import datetime, timezone

    if text is not None:
        return Path(text).absolute()
    return Path("anneal-runs", datetime.now(timezone.utc).strftime("%Y-%m-%d-%H-%M-%S")).absolute()


def render_anneal_runs(annealed: AnnealRun) -> str:
    """A line for each run, and what is wrong with its chains."""
    from gpuprov.shapes.anneal import BEST_FILE

    lines = []
    for run in annealed.runs:
        lines += [
            f"{one.kind}: {run.name}: chain {one.chain}, step {one.step}: {excerpt(one.message, LINE)}"
            for one in run.troubles
        ]
        lines += [
            f"error: {run.name}: part {part.part}: {excerpt(part.reason, LINE)}" for part in run.parts if part.reason
        ]
        best = "no value" if run.best is None else f"best {run.best!r}"
        chain = "" if run.best_chain is None else f" of chain {run.best_chain}"
        mark = " SIMULATED" if run.simulated else ""
        place = f", in {annealed.folder}/{run.name}" if annealed.folder is not None and run.state == "done" else ""
        lines.append(f"{run.name}: {run.state}, {best}{chain}, {run.chains} chains{mark}{place}")
        if run.best_place and place:
            lines.append(f"  at {run.best_place}; all of it in {annealed.folder}/{run.name}/{BEST_FILE}")
    return "\n".join(lines)


def _refuse_mixture(given: dict[str, Any], gpu_option: str) -> None:
    for option, typed in (("--nodes", given["nodes"]), ("--as", given["person"] or None)):
        if given["local"] and typed is not None:
            raise UsageError(f"{option} is for runs in a cluster", evidence=f"{option} {typed}, with --local",
                             fix=f"omit {option}, or --local")  # fmt: skip
    if gpu_option and not given["local"]:
        raise UsageError(f"{gpu_option.split(maxsplit=1)[0]} requires --local: the GPUs of nodes are fixed",
                         evidence=gpu_option, fix=f"omit {gpu_option}, or add --local")  # fmt: skip


def _read_files(given: Mapping[str, Any]) -> AnnealOrder:
    """What was typed."""
    from gpuprov.spec.anneal_order import AnnealOrder, check_numbers

    check_numbers(given["chains"], given["target"])
    return AnnealOrder(
        models=tuple(Path(path).absolute() for path in given["models"]),
        configurations=tuple(Path(path).absolute() for path in given["configurations"]),
        chains=given["chains"],
        target=given["target"],
    )
