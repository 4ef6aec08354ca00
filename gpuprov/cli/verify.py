"""`gpuprov verify`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.options import complete_nodes, seconds_up_to
from gpuprov.cli.tables import PIPE, render_table
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.names import expand_names
from gpuprov.core.printable import continued

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.report_file import ReportFile
    from gpuprov.shapes.verify import Report
    from gpuprov.shapes.watch import Change

LONGEST_WATCH_S = 7 * 86400.0
LONGEST_WORK_S = 3600.0
CLUSTER_WORDS = {"error": "cannot be checked", "ok": "responds again"}


@command(
    click.argument("nodes", nargs=-1, shell_complete=complete_nodes),
    click.option(
        "--level",
        type=click.Choice(["quick", "full"]),
        default="quick",
        show_default=True,
        help="Extent of the checks.",
    ),
    click.option(
        "--seconds",
        type=float,
        callback=seconds_up_to(LONGEST_WORK_S),
        help="Run each kernel for this long, at the full level.",
    ),
    click.option("--junit", metavar="FILE", help="Also write the report as JUnit XML."),
    click.option("--html", metavar="FILE", help="Also write the report as one HTML file, with charts."),
    click.option(
        "--watch",
        "interval_s",
        type=float,
        metavar="SECONDS",
        callback=seconds_up_to(LONGEST_WATCH_S),
        help="Repeat every N seconds and report only changes, until Ctrl-C.",
    ),
    cluster_option,
    engine_option,
)
def verify(session: Session, /, **wanted: Any) -> Result | int:  # noqa: ANN401 - click's options
    """Verify that nodes work: devices, NVML, kernels, networks, batch system. Exits with 1 if a check fails."""
    from gpuprov.cli.session import way_to_hosts
    from gpuprov.core.reporter import Silent
    from gpuprov.core.rounds import every
    from gpuprov.core.waiting import SystemClock
    from gpuprov.stories.verify import verify_nodes, watch_nodes
    from gpuprov.verify.request import Work

    level, seconds, interval_s = wanted["level"], wanted["seconds"], wanted["interval_s"]
    if seconds is not None and level != "full":
        raise _refuse("--seconds requires the full level", f"--level {level}", f"--level full --seconds {seconds:g}")
    files, work, names = _open_files(wanted), Work(level=level, seconds=seconds), _expand(wanted["nodes"])
    fleet, cluster = session.fleet, session.cluster
    if interval_s is None:
        verified = verify_nodes(fleet, cluster, names, work)
        for line in verified.notes:
            session.reporter.note(line)
        return _result(session, verified.report, files, verified.error)
    quiet = replace(fleet, connect=partial(way_to_hosts, session, Silent()))
    rounds, told = every(interval_s, SystemClock()), partial(tell_changes, session)
    watch_nodes(quiet, cluster, names, work, keep=_writer(session, files), rounds=rounds, tell=told)
    return 0


def _expand(nodes: Sequence[str]) -> tuple[str, ...] | None:
    return expand_names(",".join(nodes)) if nodes else None


def _writer(session: Session, files: dict[str, ReportFile]) -> Callable[[Report], None]:
    """Writes the files of each round, and warns once while that fails."""
    refused = ""

    def write(report: Report) -> None:
        nonlocal refused
        before, refused = refused, _try_write(files, report)
        if refused and refused != before:
            session.reporter.warn(refused)

    return write


def _try_write(files: dict[str, ReportFile], report: Report) -> str:
    """Why a file could not be written, or empty: a disk that is full for an hour must not end a watch of days."""
    try:
        _write(files, report)
    except HostNotReady as error:
        return f"{error.what}: {error.evidence}"
    return ""


def _open_files(wanted: dict[str, Any]) -> dict[str, ReportFile]:
    """The files asked for, by option; refused before anything is run."""
    from gpuprov.core.report_file import ReportFile

    options = {f"--{name}": wanted[name] for name in ("junit", "html") if wanted[name] is not None}
    files = {option: ReportFile(path, option=option) for option, path in options.items()}
    if len(files) > 1 and files["--junit"].same_as(files["--html"]):
        raise _refuse("--junit and --html name the same file", wanted["html"], "--junit verify.xml --html verify.html")
    return files


def _write(files: dict[str, ReportFile], report: Report) -> None:
    from datetime import datetime, timezone

    if "--junit" in files:
        from gpuprov.verify.junit import render_junit

        files["--junit"].write(render_junit(report))
    if "--html" in files:
        from gpuprov.verify.html import render_html

        files["--html"].write(render_html(report, made_at=datetime.now(timezone.utc)))


def _result(
    session: Session, report: Report, files: dict[str, ReportFile], error: GpuprovError | None = None
) -> Result:
    _write(files, report)
    for file in files.values():
        session.reporter.note(f"written: {file.path}")
    text = render_report(report, screen=session.screen)
    return Result(document=report, text=text, error=error, code=0 if report.passed else 1)


def render_report(report: Report, *, screen: Screen = PIPE) -> str:
    """One row for each node without the long last column, then each problem with its fix, then the count.

    A narrow terminal leaves out layers without a problem.
    """
    from gpuprov.verify.report import problem_lines, summary, table_headers, table_rows

    headers, rows = table_headers(report)[:-1], [row[:-1] for row in table_rows(report)]
    layers = [layer.upper() for layer in report.layers]
    found = {header: {row[headers.index(header)] for row in rows} for header in layers}
    spare = [header for header in layers if header != headers[0] and found[header] <= {"pass", "skip"}]
    table = render_table(headers, rows, screen=screen, spare=spare)
    return "\n".join([table, *problem_lines(report), summary(report)])


def tell_changes(session: Session, changes: Sequence[Change]) -> None:
    """Say what has changed, on stdout and in the log: lines for people, one JSON document a line for programs."""
    from gpuprov.cli.session import moment
    from gpuprov.shapes.watch import Watch

    at = moment()
    lines = [line for change in changes for line in render_change(change)]
    text = "\n".join(f"{at} {line}" for line in lines)
    session.show_round(Watch(at=at, host=session.host.name, changes=tuple(changes)), text, at=at)
    for line in lines:
        session.log.note(line)


def render_change(change: Change) -> list[str]:
    """A line for the verdict, then one for each check that has changed."""
    from gpuprov.verify.report import SIMULATED

    if not change.node:
        return [f"the cluster {CLUSTER_WORDS[change.after]}{f': {change.error}' if change.error else ''}"]
    mark = f" {SIMULATED}" if change.simulated else ""
    step = change.after if change.before == change.after else f"{change.before} -> {change.after}"
    lines = [f"{change.node}: {step}{mark}"]
    for check in change.problems:
        lines.append(continued(f"{change.node}:   {check.id}: {check.status}: {check.evidence}"))
        lines += [f"{change.node}:     fix: {check.fix}"] if check.fix else []
    return lines + [f"{change.node}:   {name}: pass" for name in change.well]


def _refuse(what: str, evidence: str, instead: str) -> UsageError:
    return UsageError(what, evidence=evidence, fix=f"gpuprov verify {instead}")
