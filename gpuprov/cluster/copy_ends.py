"""What `gpuprov cp` is told: which side each end is on, and which path the copy gets; pure but for `look`."""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_node_name
from gpuprov.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import PathKind

HOME = "/root"  # where a path in a node begins that does not begin with a slash


@dataclass(frozen=True, kw_only=True)
class CopyEnd:
    """One end of a copy.

    Attributes:
        path: As it was typed; of a node, absolute.
        node: The node that it is in; None for this host.
    """

    path: str
    node: str | None = None

    @property
    def side(self) -> str:
        """Where that is, in words."""
        return self.node or "this host"

    @property
    def shown(self) -> str:
        """The path, as errors have it."""
        return printable(self.path, lines=False)

    def at(self, path: str) -> CopyEnd:
        """Another path on the same side."""
        return CopyEnd(path=path, node=self.node)


def parse_end(text: str) -> CopyEnd:
    """An end as it is typed: `c000:/tmp` is in a node; what has a slash or nothing before the colon is on this host.

    Raises:
        UsageError: What stands before the colon cannot be a node's name.
    """
    name, colon, path = text.partition(":")
    if not colon or not name or "/" in name:
        return CopyEnd(path=text)
    try:
        check_node_name(name)
    except UsageError as error:
        fix = f"for a file of this host: ./{text}; for a file of a node: NODE:PATH"
        raise UsageError(error.what, evidence=error.evidence, fix=fix) from error
    joined = posixpath.join(HOME, path)
    return CopyEnd(
        path=posixpath.normpath(joined) + ("/" if joined.endswith("/") and joined.strip("/") else ""), node=name
    )


def refuse_same_side(source: CopyEnd, target: CopyEnd) -> None:
    """Raise UsageError unless exactly one end is in a node."""
    ends = f"{source.shown} and {target.shown}"
    if source.node and target.node:
        first = f"gpuprov cp {source.node}:{shlex.quote(source.shown)} ./"
        raise UsageError(
            "cp copies between this host and a node",
            evidence=f"{ends} are both in nodes",
            fix=f"in two steps: {first}; then from here to {target.node}",
        )
    if not source.node and not target.node:
        raise UsageError(
            "cp copies between this host and a node",
            evidence=f"{ends} are both on this host",
            fix="write the node and a colon before its path, such as c000:/tmp; list the nodes: gpuprov list",
        )


def refuse_odd_source(source: CopyEnd, kind: PathKind) -> None:
    """Raise UsageError unless a source is a file or a folder with a name."""
    if kind == "absent":
        above = source.at(posixpath.dirname(source.path.rstrip("/")) or ".")
        raise UsageError(
            f"there is no {source.shown} on {source.side}",
            evidence="no such file or folder",
            fix=f"list what is there: {_typed('ls -la', above)}",
        )
    if kind == "other":
        raise UsageError(
            f"{source.shown} on {source.side} cannot be copied",
            evidence="it is a FIFO, a device, a socket or a broken link; only files and folders are copied",
            fix=f"list what is there: {_typed('ls -la', source)}",
        )
    if kind == "file" and source.path.endswith("/"):
        raise UsageError(
            f"{source.shown} on {source.side} is not a folder",
            evidence="it is a file",
            fix=f"omit the slash at the end: {source.shown.rstrip('/')}",
        )


def decide_target(kind: PathKind, name: str, target: CopyEnd, look: Callable[[str], PathKind]) -> CopyEnd:
    """The path that a copy gets: below the target where that is a folder, else the target itself.

    Args:
        kind: Whether a file or a folder is copied.
        name: Its name at the source.
        target: As it was asked for.
        look: Tells what stands at a path on the target's side.

    Raises:
        UsageError: It cannot be there: there is no folder above it, or what is there is not replaced.
    """
    there = look(target.path)
    if there == "folder":
        if not name:
            raise UsageError(
                "the root folder cannot be copied as a whole",
                evidence=f"it has no name to use in {target.shown}",
                fix="copy the folders in it that you need",
            )
        inner = target.at(posixpath.join(target.path, name))
        return _free(kind, inner, look(inner.path))
    if target.path.endswith("/"):
        raise _no_folder(target)
    if there == "absent":
        above = target.at(posixpath.dirname(target.path) or ".")
        if look(above.path) != "folder":
            raise _no_folder(above)
        return target
    return _free(kind, target, there)


def _free(kind: PathKind, target: CopyEnd, there: PathKind) -> CopyEnd:
    """The target, unless what is there stays: a file replaces a file, and nothing else is replaced."""
    if there == "absent" or (kind == "file" and there == "file"):
        return target
    found = {"file": "a file", "folder": "a folder", "other": "a FIFO, a device, a socket or a broken link"}[there]
    raise UsageError(
        f"{target.shown} exists on {target.side}",
        evidence=f"it is {found}, and a {kind} does not replace it",
        fix="choose another target, or remove it first",
    )


def _no_folder(place: CopyEnd) -> UsageError:
    return UsageError(
        f"there is no folder {place.shown} on {place.side}",
        evidence="no such folder",
        fix=f"create it: {_typed('mkdir -p', place)}",
    )


def _typed(command: str, place: CopyEnd) -> str:
    """A command about a path, as it is typed here."""
    line = f"{command} {shlex.quote(place.shown)}"
    return f"gpuprov exec {place.node} -- {line}" if place.node else line
