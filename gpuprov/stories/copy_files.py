"""`gpuprov cp`: a file or folder from this host into a node, or from a node to this host; holds no lock meanwhile."""

from __future__ import annotations

import posixpath
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.cluster.copy_ends import decide_target, refuse_odd_source
from gpuprov.cluster.find_node import get_running
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.outcome import Outcome
from gpuprov.core.units import MIB
from gpuprov.project.incoming_files import IncomingFiles, name_left_out
from gpuprov.project.outgoing_files import OutgoingFiles, look_here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.copy_ends import CopyEnd
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, PathKind

_NAMED = 20  # of what was left out
_STEP_BYTES = 64 * MIB


def copy_files(driver: Driver, source: CopyEnd, target: CopyEnd, *, reporter: Reporter) -> Outcome:
    """Copy one file or folder; the target is whole or is not there.

    Args:
        source: One end.
        target: The other end; one of the two is in a node.
        reporter: Is told what was left out.

    Raises:
        UsageError: One end cannot be, or what is at the target stays.
        EngineError: It could not be read or written, or goes over a limit.
        TimedOut: Nothing moved any more.
    """
    get_running(driver, source.node or target.node or "")
    with reporter.phase("copy"):
        copy = _fetch if source.node else _send
        return copy(driver, source, target, reporter=reporter)


def _fetch(driver: Driver, source: CopyEnd, target: CopyEnd, *, reporter: Reporter) -> Outcome:
    node = source.node or ""
    kind = driver.look(node, source.path)
    refuse_odd_source(source, kind)
    place = decide_target(kind, _name(source.path), target, _look_at_path)
    passed = _Passed(node, reporter)
    with IncomingFiles(node=node, path=source.shown, kind=kind, target=Path(place.path)) as incoming:

        def take(piece: bytes) -> None:
            incoming.take(piece)
            passed.count(piece)

        complaint = driver.read_tree(node, source.path, take)
    _tell(incoming.skipped, incoming.left_out, complaint, node=node, reporter=reporter)
    return _copied(source, place, incoming.files, incoming.total_bytes)


def _send(driver: Driver, source: CopyEnd, target: CopyEnd, *, reporter: Reporter) -> Outcome:
    node = target.node or ""
    kind = _look_at_path(source.path)
    refuse_odd_source(source, kind)
    named = Path(source.path).name
    name = Path(source.path).resolve().name if named in ("", "..") else named
    place = decide_target(kind, name, target, partial(driver.look, node))
    outgoing = OutgoingFiles(Path(source.path))
    passed = _Passed(node, reporter)
    driver.write_tree(node, place.path, map(passed.count, outgoing.tar()))
    _tell(outgoing.skipped[:_NAMED], len(outgoing.skipped), "", node=node, reporter=reporter)
    return _copied(source, place, outgoing.files, outgoing.total_bytes)


class _Passed:
    """Says now and then how much has passed."""

    def __init__(self, node: str, reporter: Reporter) -> None:
        self._node, self._reporter = node, reporter
        self._bytes = 0

    def count(self, piece: bytes) -> bytes:
        """Count a piece, which is handed back."""
        before, self._bytes = self._bytes, self._bytes + len(piece)
        if before // _STEP_BYTES != self._bytes // _STEP_BYTES:
            self._reporter.node(self._node, f"{self._bytes // MIB} MiB copied")
        return piece


def _look_at_path(path: str) -> PathKind:
    return look_here(Path(path))


def _name(path: str) -> str:
    return posixpath.basename(path.rstrip("/"))


def _tell(skipped: Sequence[str], count: int, complaint: str, *, node: str, reporter: Reporter) -> None:
    if count:
        reporter.warn(name_left_out(skipped, count))
    if complaint:
        reporter.warn(f"{node} reported while it was read: {excerpt(complaint, LINE)}")


def _copied(source: CopyEnd, target: CopyEnd, files: int, total_bytes: int) -> Outcome:
    ends = " to ".join(f"{end.node}:{end.shown}" if end.node else end.shown for end in (source, target))
    counted = "1 file" if files == 1 else f"{files} files"
    return Outcome(changed=(f"copied {ends}: {counted}, {total_bytes} bytes",))
