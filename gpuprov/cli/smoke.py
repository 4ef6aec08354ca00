"""`gpuprov smoke`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option, gpu_mode_option, typed_gpu_option
from gpuprov.cli.options import complete_nodes
from gpuprov.cli.tables import PIPE, render_table
from gpuprov.core.errors import UsageError
from gpuprov.core.names import expand_names
from gpuprov.core.printable import continued

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.smoke_run import KernelName, SmokeResult


@command(
    click.argument("kernel", type=click.Choice(["matmul", "anneal", "membw"])),
    click.argument("nodes", nargs=-1, shell_complete=complete_nodes),
    click.option("--size", help="matmul: rows. anneal: side length, a power of two. membw: bytes, such as 16K or 1G."),
    click.option("--seconds", type=float, help="Repeat for at least this long."),
    click.option("--local", is_flag=True, help="Run on this machine, without an engine."),
    gpu_mode_option,
    cluster_option,
    engine_option,
)
def smoke(session: Session, /, **given: Any) -> Result:  # noqa: ANN401 - what click hands over, by name
    """Run a smoke kernel in NODES, or in every running node that holds a GPU; exits with 1 if one fails.

    With --local, run it on this machine with gpuprov's Python, in which numba-cuda must be installed.
    """
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.fleet.here import open_cluster_here
    from gpuprov.shapes.smoke_run import SmokeRun
    from gpuprov.stories.smoke import smoke_local, smoke_nodes
    from gpuprov.verify.smoke_result import SmokeOrder

    kernel = cast("KernelName", given["kernel"])
    _refuse_mixture(kernel, given, typed_gpu_option(session, given["gpu_mode"]))
    order = SmokeOrder(kernel=kernel, size=given["size"], seconds=given["seconds"])
    results: tuple[SmokeResult, ...]
    if given["local"]:
        results = (smoke_local(order, get_gpus(session.host, given["gpu_mode"] or "auto", reporter=session.reporter)),)
    else:
        nodes = expand_names(",".join(given["nodes"])) if given["nodes"] else None
        driver = open_cluster_here(session.fleet, session.cluster)
        results = smoke_nodes(driver, session.cluster, order, nodes=nodes, reporter=session.reporter)
    document = SmokeRun(host=session.host.name, kernel=kernel, results=results)
    code = 0 if all(result.passed for result in results) else 1
    return Result(document=document, text=render_results(results, screen=session.screen), code=code)


def render_results(results: Sequence[SmokeResult], *, screen: Screen = PIPE) -> str:
    """One row for each GPU of each place, then what is wrong, with its fix."""
    rows = [
        (result.place, gpu, f"{result.verdict} SIMULATED" if result.simulated else result.verdict, *measures)
        for result in results
        for gpu, measures in enumerate(_measures(result.document))
    ]
    headers = ("NODE", "GPU", "VERDICT", "SIZE", "REPEATS", "DIGEST", "RATE", "SECONDS")
    table = render_table(headers, rows, screen=screen)
    wrong = [
        line
        for result in results
        if result.verdict != "pass"
        for line in (continued(f"{result.place}: {result.evidence}"), f"  fix: {result.fix}")
    ]
    return "\n".join([table, *wrong])


def _measures(document: Mapping[str, Any] | None) -> list[tuple[object, ...]]:
    """For each GPU: size, repeats, digest, rate and seconds; blank where the document of a failed run lacks them."""
    found = (document or {}).get("results")
    results = found if isinstance(found, list) and found else [None]
    return [_measure(result) for result in results]


def _measure(result: Any) -> tuple[object, ...]:  # noqa: ANN401 - a node may say anything
    try:
        rate = result["rate"]
        return (
            result["parameters"]["size"],
            result["parameters"]["repeats"],
            result["proof"]["digest"],
            f"{rate['median']:.0f} {rate['unit']}" if rate else "",
            f"{sum(result['seconds'].values()):.1f}",
        )
    except (KeyError, TypeError, IndexError, ValueError, AttributeError):
        return ("",) * 5


def _refuse_mixture(kernel: str, given: Mapping[str, Any], gpu_option: str) -> None:
    if given["local"] and given["nodes"]:
        raise UsageError(
            "--local runs on this machine, not in nodes",
            evidence=f"nodes: {' '.join(given['nodes'])}",
            fix=f"gpuprov smoke {kernel} --local",
        )
    if gpu_option and not given["local"]:
        raise UsageError(
            f"{gpu_option.split(maxsplit=1)[0]} requires --local: the GPUs of nodes are fixed",
            evidence=gpu_option,
            fix=f"gpuprov smoke {kernel}",
        )
