"""`gpuprov verify`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli import spanning
from gpuprov.cli.engine import cluster_option, engine_option, open_engine_of_cluster
from gpuprov.cli.parameters import complete_nodes, seconds_up_to
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.names import expand_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.report_file import ReportFile
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.host.base import Host
    from gpuprov.shapes.verify import Report
    from gpuprov.verify.request import Work

LONGEST_WATCH_S = 7 * 86400.0
LONGEST_WORK_S = 3600.0


@click.command()
@click.argument("nodes", nargs=-1, shell_complete=complete_nodes)
@click.option(
    "--level", type=click.Choice(["quick", "full"]), default="quick", show_default=True, help="Extent of the checks."
)
@click.option(
    "--seconds",
    type=float,
    callback=seconds_up_to(LONGEST_WORK_S),
    help="Run each kernel for this long, at the full level.",
)
@click.option("--junit", metavar="FILE", help="Also write the report as JUnit XML.")
@click.option("--html", metavar="FILE", help="Also write the report as one HTML file, with charts.")
@click.option(
    "--watch",
    "interval_s",
    type=float,
    metavar="SECONDS",
    callback=seconds_up_to(LONGEST_WATCH_S),
    help="Repeat every N seconds and report only changes, until Ctrl-C.",
)
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, /, **wanted: Any) -> int:  # noqa: ANN401 - click's options
    """Verify that nodes work: devices, NVML, kernels, networks, batch system. Exits with 1 if a check fails."""
    from gpuprov.verify.request import Work

    level, seconds, interval_s = wanted["level"], wanted["seconds"], wanted["interval_s"]
    if seconds is not None and level != "full":
        raise _refuse("--seconds requires the full level", f"--level {level}", f"--level full --seconds {seconds:g}")
    files = _open_files(wanted)
    over_hosts = spanning.find_spanning_cluster(session, wanted["cluster"], wanted["engine"])
    if over_hosts is not None:
        return _verify_hosts(session, wanted, over_hosts, files)
    verify = _verifier(session.host, wanted["cluster"], Work(level=level, seconds=seconds))
    if interval_s is not None:
        _watch(session, wanted, verify, files)
        return 0
    names = _expand(wanted["nodes"])
    driver = open_engine_of_cluster(session, wanted["engine"], wanted["cluster"])
    report = verify(driver, names, session.reporter)
    _note_older(session, driver, wanted["cluster"], {node.node for node in report.nodes})
    return _show(session, report, files)


def _note_older(session: Session, driver: Driver, cluster: str, verified: Collection[str]) -> None:
    """An older image is no fault: it changes no verdict."""
    from gpuprov.cluster.state import observe_cluster
    from gpuprov.planes.across.image_age import find_older, older_notes

    older = find_older(driver, observe_cluster(driver, cluster))
    for line in older_notes({name: lack for name, lack in older.items() if name in verified}, cluster):
        session.reporter.note(line)


def _verify_hosts(session: Session, wanted: dict[str, Any], seen: SpanningCluster, files: dict[str, ReportFile]) -> int:
    """The same of a cluster that spans hosts."""
    from gpuprov.core.reporter import Silent
    from gpuprov.fleet.absent_hosts import sound_nodes, tell_away, tell_back
    from gpuprov.fleet.hosted_cluster import require_spanning
    from gpuprov.stories.verify import verify_over_hosts, watch_over_hosts
    from gpuprov.verify.request import Work

    work, nodes = Work(level=wanted["level"], seconds=wanted["seconds"]), _expand(wanted["nodes"]) or ()
    if wanted["interval_s"] is None:
        with session.reporter.phase("verify"):
            verified = verify_over_hosts(seen, spanning.way_to_hosts(session), nodes=nodes, work=work)
        return _show(session, verified.report, files, verified.error)
    hosts, written = spanning.way_to_hosts(session, Silent()), _writer(session, files)

    def look(found: SpanningCluster, there: Sequence[str]) -> Report:
        for line in tell_away(found, hosts, reporter=session.reporter):  # soon: what follows takes seconds
            session.reporter.note(line)
        report = written(verify_over_hosts(found, hosts, nodes=there, work=work).report)
        for line in tell_back(found, hosts, reporter=session.reporter, sound=sound_nodes(report)):
            session.reporter.note(line)
        return report

    watch_over_hosts(
        lambda: require_spanning(wanted["cluster"], spanning.remembered_hosts(), hosts),
        look,
        nodes=nodes,
        **_rhythm(session, wanted),
    )
    return 0


def _verifier(host: Host, cluster: str, work: Work) -> Callable[[Driver, Sequence[str] | None, Reporter], Report]:
    from gpuprov.workflows.verify import verify_cluster

    def verify(driver: Driver, nodes: Sequence[str] | None, reporter: Reporter) -> Report:
        return verify_cluster(driver, cluster, host=host, nodes=nodes, reporter=reporter, work=work)

    return verify


def _expand(nodes: Sequence[str]) -> tuple[str, ...] | None:
    return expand_names(",".join(nodes)) if nodes else None


def _watch(
    session: Session,
    wanted: dict[str, Any],
    verify: Callable[[Driver, Sequence[str] | None, Reporter], Report],
    files: dict[str, ReportFile],
) -> None:
    from gpuprov.core.reporter import Silent
    from gpuprov.workflows.verify import watch

    written = _writer(session, files)

    def look(driver: Driver, nodes: Sequence[str] | None) -> Report:
        return written(verify(driver, nodes, Silent()))  # what the rounds say would fill the log in days

    watch(
        look,
        lambda: open_engine_of_cluster(session, wanted["engine"], wanted["cluster"]),
        cluster=wanted["cluster"],
        nodes=_expand(wanted["nodes"]),
        **_rhythm(session, wanted),
    )


def _rhythm(session: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    """When a watch looks, and who is told what has changed."""
    from gpuprov.cli.changes import tell_changes
    from gpuprov.core.rounds import every
    from gpuprov.core.waiting import SystemClock

    return {"rounds": every(wanted["interval_s"], SystemClock()), "tell": partial(tell_changes, session)}


def _writer(session: Session, files: dict[str, ReportFile]) -> Callable[[Report], Report]:
    """Writes the files of each round, warns once while that fails, and returns the report."""
    refused = ""

    def write(report: Report) -> Report:
        nonlocal refused
        before, refused = refused, _try_write(files, report)
        if refused and refused != before:
            session.reporter.warn(refused)
        return report

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


def _show(session: Session, report: Report, files: dict[str, ReportFile], error: GpuprovError | None = None) -> int:
    from gpuprov.cli.verify_table import render_report

    _write(files, report)
    for file in files.values():
        session.reporter.note(f"written: {file.path}")
    text = render_report(report, colour=session.colour)
    return spanning.show_result(session, report, text, error, 0 if report.passed else 1)


def _refuse(what: str, evidence: str, instead: str) -> UsageError:
    return UsageError(what, evidence=evidence, fix=f"gpuprov verify {instead}")
