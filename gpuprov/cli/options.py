"""Arguments and options that several verbs take, what is read from them, and how a shell completes them."""

from __future__ import annotations

import functools
import math
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import check_cluster_name, check_node_name, expand_names, is_run_name, name_of_run
from gpuprov.core.units import HOUR_S, parse_duration_s
from gpuprov.shapes.choices import DEFAULT_CLUSTER
from gpuprov.shapes.limits import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msgspec import UnsetType

    from gpuprov.drivers.base import Driver

COMPLETION_S = 1.0
LONGEST_WAIT_S: Final = 7 * 86400
DRAIN: Final = "1h"
_MOST_OF_TYPE: Final = 64  # as of any type, in an order of jobs
_GPUS: Final = re.compile(r"(-?[0-9]{1,9})|([A-Za-z0-9][A-Za-z0-9._-]{0,63})(?::([0-9]{1,9}))?", re.ASCII)
FC = TypeVar("FC", bound="Callable[..., Any] | click.Command")


def checked_cluster(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    """The name of a cluster, or None where none is given; refused where it cannot be one."""
    return None if name is None else check_cluster_name(name)


def node_argument(name: str = "node", *, new: bool = False) -> Callable[[Any], Any]:
    """One node's name, or a label like one, refused where it cannot be; a shell completes it, unless it is `new`."""
    what = name if name == "label" else "node name"
    return click.argument(
        name,
        metavar=name.upper(),
        callback=lambda context, _parameter, value: check_node_name(_one_node(context, value), what),
        shell_complete=_nothing if new else complete_snapshots if name == "label" else complete_nodes,
    )


def _one_node(context: click.Context, value: str) -> str:
    """The same text, refused where it names several nodes."""
    if not {",", "["} & set(value):
        return value
    names = expand_names(value)
    if len(names) == 1:
        return value
    raise UsageError(
        f"{context.command_path} takes one node, not {len(names)}",
        evidence=excerpt(value),
        fix=f"name one; or one after the other: for node in {excerpt(' '.join(names))}; do {context.command_path} $node"
        f"{' -- hostname' if context.info_name == 'exec' else ''}; done",
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


def folder_argument(name: str, metavar: str = "PROJECT") -> Callable[[Any], Any]:
    """The folder of a project, as it was typed; a shell completes it."""
    return click.argument(name, metavar=metavar, type=click.Path())


def new_folder_argument(default: str) -> Callable[[Any], Any]:
    """The folder that an example is written into."""
    return click.argument("folder", type=click.Path(path_type=Path), default=Path(default))


def get_folder(text: str) -> Path:
    """The absolute path of a project's folder.

    Raises:
        UsageError: There is no such folder.
    """
    return _get_path(text, Path.is_dir, "the folder of a project", "it is a file")


def get_file(text: str) -> Path:
    """The absolute path of a file with data.

    Raises:
        UsageError: There is no such file.
    """
    return _get_path(text, Path.is_file, "a file with data", "it is not a regular file")


def _get_path(text: str, fits: Callable[[Path], bool], what: str, else_why: str) -> Path:
    try:
        path = Path(text).resolve()
        if fits(path):
            return path
        why = else_why if path.exists() else "it does not exist"
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in it; links in a circle
        why = str(error)
    raise UsageError(f"{excerpt(text)!r} is not {what}", evidence=why, fix=f"ls -ld {shlex.quote(excerpt(text, 200))}")


def role_option(text: str, *, default: str | None = None) -> Callable[[Any], Any]:
    """What nodes are for."""
    from gpuprov.roles.registry import ROLE_NAMES

    return click.option(
        "--role", type=click.Choice(ROLE_NAMES), default=default, show_default=default is not None, help=text
    )


def page_port_option(default: int) -> Callable[[FC], FC]:
    """`--port` of the verbs that lead a browser to a page in a node."""
    port = click.IntRange(1, 65535)
    return click.option(
        "--port", type=port, default=default, show_default=True, help="Port of this host, on 127.0.0.1."
    )


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--drain` and `--force`, handed on as a JobsPolicy named `policy`."""

    @functools.wraps(function)
    def command(*arguments: Any, drain: float | None, force: bool, **more: Any) -> Any:  # noqa: ANN401 - click's own
        from gpuprov.lifecycle.leaving import JobsPolicy

        return function(*arguments, policy=JobsPolicy(force=force, drain_s=drain), **more)

    drain = click.option(
        "--drain",
        is_flag=False,
        flag_value=DRAIN,
        metavar="[TIME]",
        is_eager=True,  # before NODES is missed: `--drain c000` takes the node for a time, and says so
        callback=_drain,
        help=f"Start no more jobs on the nodes, and wait at most TIME, such as 30m, for running jobs to end.  "
        f"[default TIME: {DRAIN}]",
    )
    force = click.option("--force", is_flag=True, help="End the jobs on the nodes, and name them.")
    return drain(force(command))


def _drain(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    return None if text is None else duration("--drain", text, fix=f"--drain {DRAIN}; names must come before it")


time_option: Callable[[Any], Any] = click.option(
    "--time",
    "time_limit",
    metavar="TIME",
    help="End each try after TIME, such as 90, 30m or 12h.  [default: jobs.time of the cluster's spec]",
)
retries_option: Callable[[Any], Any] = click.option(
    "--retries", type=int, default=0, metavar="N", help="Number of further tries after a run failed."
)
memory_option: Callable[[Any], Any] = click.option(
    "--memory",
    metavar="SIZE",
    help="Memory that a node must have for a run, such as 8GiB.  [default: jobs.memory of the cluster's spec]",
)


gpus_option: Callable[[Any], Any] = click.option(
    "--gpus", metavar="N|TYPE[:N]", help="GPUs of each run, of any type or of one, such as h100:2.  [default: 1]"
)


def parse_gpus(text: str | None) -> tuple[str | UnsetType, int | None]:
    """The type and the number of `--gpus`; the number is None where nothing is said.

    Raises:
        UsageError: It is neither a number, nor a type with or without one.
    """
    from msgspec import UNSET

    if text is None:
        return UNSET, None
    found = _GPUS.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--gpus {excerpt(text)!r} is no number of GPUs",
            evidence="allowed: a number, or a type with or without one, such as 2, h100 or h100:2",
            fix="--gpus 1",
        )
    number, type_, many = found.groups()
    if many and int(many) > _MOST_OF_TYPE:
        raise UsageError(
            f"--gpus {excerpt(text)!r} is no number of GPUs of a type",
            evidence=f"allowed: 1 to {_MOST_OF_TYPE} of a type",
            fix=f"--gpus {type_}:1",
        )
    return (UNSET, int(number)) if number else (type_, int(many or 1))


def parse_time_limit(text: str | None) -> int | None:
    """The seconds of `--time`.

    Raises:
        UsageError: It is no time, or too long.
    """
    return None if text is None else int(duration("--time", text, fix="--time 12h", most_s=LONGEST_S))


as_option: Callable[[Any], Any] = click.option(
    "--as",
    "person",
    default="",
    metavar="NAME",
    help="Act for this person of the cluster, if its spec has jobs.submit_as.",
)


def job_argument() -> Callable[[Any], Any]:
    """One job, handed on as `job`."""
    return click.argument(
        "job", metavar="ID", callback=lambda _context, _parameter, text: check_id(text), shell_complete=complete_jobs
    )


def jobs_argument() -> Callable[[Any], Any]:
    """One or more jobs, handed on as `ids`."""

    def check(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(check_id, texts)))

    return click.argument(
        "ids", metavar="IDS...", nargs=-1, required=True, callback=check, shell_complete=complete_jobs
    )


def complete_jobs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids of jobs that begin so, of the cluster that was typed, where it answers while somebody waits at a keyboard."""
    from gpuprov.lifecycle.find_controller import get_controller
    from gpuprov.machine.local import LocalHost
    from gpuprov.machine.survey import survey, survey_names

    cluster = context.params.get("cluster") or DEFAULT_CLUSTER
    engines = LocalHost().engines
    named = survey_names(engines, timeout_s=COMPLETION_S)
    doors = [door for door in engines if named.get(door.name)]  # the SDKs of the others are not loaded
    seen = survey(doors, lambda driver: get_controller(driver, cluster).list_jobs(), timeout_s=COMPLETION_S)
    jobs = [job for found in seen.answers.values() for job in found.jobs]
    ids = dict.fromkeys(id_ for job in jobs for id_ in (job.submission, job.id))
    return [id_ for id_ in ids if id_.startswith(incomplete)]


def check_id(text: str) -> str:
    """Return the id if a job can have it.

    Raises:
        UsageError: It cannot be one.
    """
    from gpuprov.shapes.jobs import is_job_id

    if not is_job_id(text):
        raise UsageError(
            f"{excerpt(repr(text), 80)} is not the id of a job",
            evidence="allowed: 7, or 7.3 for run 3 of it",
            fix="list the jobs: gpuprov jobs",
        )
    return text


def check_submission(text: str) -> str:
    """Return the id if a submission can have it.

    Raises:
        UsageError: It cannot be one, or is that of one run.
    """
    if "." in check_id(text):
        raise UsageError(
            "a job follows all runs of another one",
            evidence=f"{text} is one run",
            fix=f"name the submission: --after {text.partition('.')[0]}",
        )
    return text


def complete_nodes(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of nodes that begin so, on every engine that answers while somebody waits at a keyboard."""
    from gpuprov.machine.local import LocalHost
    from gpuprov.machine.survey import survey_names

    found = survey_names(LocalHost().engines, timeout_s=COMPLETION_S)
    nodes = {name for names in found.values() for name in names if not is_run_name(name)}
    return sorted(name for name in nodes if name.startswith(incomplete))


def complete_runs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of containers of `gpuprov run` on this machine that begin so."""
    from gpuprov.machine.local import LocalHost
    from gpuprov.machine.survey import survey_names

    found = survey_names(LocalHost().engines, timeout_s=COMPLETION_S)
    runs = {name_of_run(name) for names in found.values() for name in names if is_run_name(name)}
    return sorted(name for name in runs if name.startswith(incomplete))


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
    from gpuprov.cli.session import remembered_hosts
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
