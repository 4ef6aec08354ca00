"""Arguments that several verbs take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_cluster_name, check_node_name, expand_names
from gpuprov.core.units import HOUR_S, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.drivers.base import Driver

COMPLETION_S = 1.0
LONGEST_WAIT_S: Final = 7 * 86400


def checked_cluster(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    """The name of a cluster, or None where none is given; refused where it cannot be one."""
    return None if name is None else check_cluster_name(name)


def node_argument(name: str = "node", *, new: bool = False) -> Callable[[Any], Any]:
    """One node's name, or a label like one, refused where it cannot be; a shell completes it, unless it is `new`."""
    what = name if name == "label" else "node name"
    return click.argument(
        name,
        metavar=name.upper(),
        callback=lambda _context, _parameter, value: check_node_name(value, what),
        shell_complete=_nothing if new else complete_snapshots if name == "label" else complete_nodes,
    )


def nodes_argument() -> Callable[[Any], Any]:
    """One or more nodes, such as `c000 c001` or `c[000-003]`, handed on as a tuple of names."""
    return click.argument(
        "nodes",
        metavar="NODES...",
        nargs=-1,
        required=True,
        callback=lambda _context, _parameter, values: expand_names(",".join(values)),
        shell_complete=complete_nodes,
    )


def seconds_up_to(most: float) -> Callable[[click.Context, click.Parameter, float | None], float | None]:
    """A check that a number of seconds is one: click's own ranges let NaN through."""

    def check(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
        if value is not None and not (math.isfinite(value) and 0 < value <= most):
            raise click.BadParameter(f"{value} is not a number of seconds above 0 and up to {most:g}")
        return value

    return check


def duration(option: str, text: str, *, fix: str, most_s: int = LONGEST_WAIT_S) -> float:
    """Seconds of a time such as 90, 10m or 8h.

    Raises:
        UsageError: It is none, or too long.
    """
    seconds = parse_duration_s(text)
    if seconds is None or not 0 < seconds <= most_s:
        raise UsageError(
            f"{option} {text!r} is not a valid duration",
            evidence=f"allowed: a whole number with s, m or h, above 0 and up to {most_s // HOUR_S}h",
            fix=fix,
        )
    return float(seconds)


def given_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command as it was typed after a node's name, with or without `--` before it."""
    return argv[1:] if argv[:1] == ("--",) else argv


def complete_nodes(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of nodes that begin so, on every engine that answers while somebody waits at a keyboard."""
    from gpuprov.machine.local import LocalHost
    from gpuprov.machine.survey import survey_names

    found = survey_names(LocalHost().engines, timeout_s=COMPLETION_S)
    return sorted(name for names in found.values() for name in names if name.startswith(incomplete))


def complete_images(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of node images that begin so."""
    return _complete(lambda driver: [image.name for image in driver.list_images()], incomplete)


def complete_clusters(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of clusters that begin so."""
    from gpuprov.drivers.base import LABEL_CLUSTER

    def clusters(driver: Driver) -> Sequence[str]:
        found = [node.labels[LABEL_CLUSTER] for node in driver.list_nodes() if node.ours]
        return [name for name in found if not name.startswith("(")]

    return _complete(clusters, incomplete)


def complete_hosts(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of hosts that were added that begin so."""
    from gpuprov.cli.open_fleet import remembered_hosts
    from gpuprov.core.errors import GpuprovError

    try:
        return sorted(name for name in remembered_hosts() if name.startswith(incomplete))
    except GpuprovError:
        return []


def complete_snapshots(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Labels of snapshots that begin so, of the node that was typed before them."""
    node = context.params.get("node")
    if not node:
        return []

    def snapshots(driver: Driver) -> Sequence[str]:
        found = driver.find_node(node)
        return found.snapshots if found is not None and found.ours else ()

    return _complete(snapshots, incomplete)


def _complete(names: Callable[[Driver], Sequence[str]], incomplete: str) -> list[str]:
    from gpuprov.machine.local import LocalHost
    from gpuprov.machine.survey import survey

    found = survey([door for door in LocalHost().engines if door.installed()], names, timeout_s=COMPLETION_S).answers
    return sorted({name for answer in found.values() for name in answer if name.startswith(incomplete)})


def _nothing(_context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[str]:
    return []
