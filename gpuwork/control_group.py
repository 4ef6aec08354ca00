"""The control groups of this process, as the kernel shows them, of version 1 or 2."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC: Final = Path("/proc")


@dataclass(frozen=True, kw_only=True)
class ControlGroup:
    """A control group.

    Attributes:
        folder: Its own.
        top: That of the uppermost group that can be seen, of which this is a part.
        kind: The type of the file system.
    """

    folder: Path
    top: Path
    kind: str

    def folders(self) -> Iterator[Path]:
        """Its own, and those of the groups that it is in."""
        for folder in (self.folder, *self.folder.parents):
            yield folder
            if folder == self.top:
                break


def find_groups(controller: str, proc: Path = PROC) -> Iterator[ControlGroup]:
    """The groups of this process that may have a controller, such as `memory`."""
    mounts = list(_mounts(read_piece(proc / "self/mountinfo").decode(errors="replace")))
    for line in read_piece(proc / "self/cgroup").decode(errors="replace").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        is_old = controller in controllers.split(",")
        if not is_old and number != "0":
            continue
        kind = "cgroup" if is_old else "cgroup2"
        for mounted, root, top, options in mounts:
            if mounted == kind and (not is_old or controller in options):
                yield ControlGroup(folder=_within(top, root, path), top=top, kind=kind)


def read_piece(path: Path) -> bytes:
    """The first MiB of a file of the kernel; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MIB)
    except OSError:
        return b""


def read_number(path: Path) -> int | None:
    """What a file of a group says; None for `max`, or where it is not there."""
    said = read_piece(path).strip()
    return int(said) if said.isdigit() else None


def _within(top: Path, root: str, path: str) -> Path:
    """Where a group is below the mount `top`, which shows the group `root` and what is within."""
    with suppress(ValueError):
        below = PurePosixPath(path).relative_to(root)
        if ".." not in below.parts:
            return top / below
    return top


def _mounts(told: str) -> Iterator[tuple[str, str, Path, list[str]]]:
    """Type, root, place and options of the mounts in `mountinfo`."""
    for line in told.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if len(fields) > 4 and len(tail) > 2:  # noqa: PLR2004
            yield tail[0], fields[3], Path(fields[4]), tail[2].split(",")
