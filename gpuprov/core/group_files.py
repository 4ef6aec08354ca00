"""Files that root and the members of some groups can open, and nobody else: a gate for each group, one file behind all.

A file has one group, and a host may have several engines, each with a group of its own. So the file is open to
everybody, and lies in folders that are not: it is linked into each of them.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCK_FOLDER = Path("/var/lib/gpuprov/lock")  # not in /run: there, root would have to make it after each boot
# The host's lock, that of its image builds, those of single changes, and the queue for its GPUs: whoever may open one
# may open all.
LOCK_NAME: Final = "lock"
IMAGES_NAME: Final = "images"
CHANGES_NAME: Final = "changes"
QUEUE_NAME: Final = "queue"
_NAMES: Final = frozenset({LOCK_NAME, IMAGES_NAME, CHANGES_NAME, QUEUE_NAME})
_OWNER = "owner"
_FOLDER, _OWNERS_GATE, _GROUPS_GATE, _FILE = 0o755, 0o700, 0o750, 0o666
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True)
class Gates:
    """Where such files are.

    Attributes:
        folder: Holds the gates; LOCK_FOLDER where None. Root makes it, or whoever may.
        groups: Ids of the groups whose members may open the files.
    """

    folder: Path | None = None
    groups: frozenset[int] = frozenset()

    @property
    def place(self) -> Path:
        """The folder."""
        return self.folder or LOCK_FOLDER

    def file(self, name: str) -> Path:
        """Where the owner of the folder finds a file."""
        return self.place / _OWNER / name

    def open(self, name: str) -> int:
        """A descriptor of the file, for reading and writing; who owns folder, gates and file makes what is missing.

        Raises:
            HostNotReady: This user may not open it, or something that gpuprov did not make is in its place.
        """
        try:
            if self._is_ours():
                self._make(name)
                return self._enter(_OWNER, name)
            for gate in self._find_gates():
                with contextlib.suppress(PermissionError, FileNotFoundError):
                    if not self._lacks(gate, name):  # else it would be refused in the middle of a change
                        return self._enter(gate, name)
        except OSError as error:
            fix = f"ls -lR {self.place}"
            raise HostNotReady("cannot open the lock of this host", evidence=str(error), fix=fix) from error
        raise self._refuse(name)

    def open_existing(self, name: str) -> int:
        """The same, for who only looks: nothing is made.

        Raises:
            OSError: There is none, or this user may not open it.
            HostNotReady: Something that gpuprov did not make is in its place.
        """
        for gate in (_OWNER, *self._find_gates()):
            with contextlib.suppress(PermissionError, FileNotFoundError):
                return self._enter(gate, name)
        raise FileNotFoundError(self.file(name))

    def _is_ours(self) -> bool:
        """Whether this user makes the gates: root, or the owner of the folder, as in a test."""
        if os.getuid() == 0:
            return True
        with contextlib.suppress(FileNotFoundError):
            return self.place.lstat().st_uid == os.getuid()
        with contextlib.suppress(OSError):
            self.place.mkdir()
            return True
        return False

    def _make(self, name: str) -> None:
        self.place.parent.mkdir(parents=True, exist_ok=True)
        _make_folder(self.place, _FOLDER)
        _make_folder(self.place / _OWNER, _OWNERS_GATE)
        names = sorted({name, *_NAMES})
        for made in names:
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(self.file(made), _OPEN | os.O_CREAT | os.O_EXCL, _FILE)
                os.fchmod(descriptor, _FILE)  # whatever the umask
                os.close(descriptor)
        for group in sorted(self.groups):
            gate = self.place / str(group)
            _make_folder(gate, _GROUPS_GATE, group=group)
            for made in names:
                self._link(made, gate)

    def _link(self, name: str, gate: Path) -> None:
        """Put the file into a gate; something else of that name is replaced in one step."""
        file = self.file(name)
        with contextlib.suppress(FileNotFoundError):
            if file.samefile(gate / name):
                return
        draft = gate / f"{name}.{os.getpid()}"
        draft.unlink(missing_ok=True)
        draft.hardlink_to(file)
        draft.replace(gate / name)
        draft.unlink(missing_ok=True)  # where another process was faster, the rename has left it

    def _enter(self, gate: str, name: str) -> int:
        """Open the file in a gate, and trust nothing that another user than root could have made."""
        for folder in (self.place, self.place / gate):
            _require_own(folder, folder.lstat(), "a folder")
        path = self.place / gate / name
        descriptor = os.open(path, _OPEN)
        try:
            _require_own(path, os.fstat(descriptor), "a regular file")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _lacks(self, gate: str, name: str) -> bool:
        """Whether a gate is that of an earlier version, which had fewer files."""
        return not all((self.place / gate / one).exists() for one in (name, *_NAMES))

    def _find_gates(self) -> list[str]:
        with contextlib.suppress(OSError):
            return sorted(entry.name for entry in self.place.iterdir() if entry.name.isdecimal())
        return []

    def _refuse(self, name: str) -> HostNotReady:
        mine = {os.getgid(), *os.getgroups()}
        gates = {int(gate) for gate in self._find_gates()}
        older = {gate for gate in mine & gates if self._lacks(str(gate), name)}
        if unmade := mine & (self.groups - gates) | older:
            return HostNotReady(
                "the lock of this host is not open to this user yet",
                evidence=f"only root can create {self.place}; afterwards members of {_name_groups(unmade)} can use it",
                fix="run this command once with sudo",
            )
        who = f"root and members of {_name_groups(gates)}" if gates else "root alone"
        return HostNotReady(
            "this user may not change this host",
            evidence=f"only {who} can hold its lock; {user_name()} is a member of {_name_groups(mine)}",
            fix=f"sudo usermod -aG {_name(min(gates))} $USER, then log in again"
            if gates
            else "run this command with sudo",
        )


def user_name() -> str:
    """Who runs this, as the kernel knows it: variables say what they like."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def _make_folder(path: Path, mode: int, *, group: int = -1) -> None:
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=_OWNERS_GATE)
    seen = path.lstat()
    _require_own(path, seen, "a folder")
    if group not in (-1, seen.st_gid):
        os.chown(path, -1, group)
    if stat.S_IMODE(seen.st_mode) != mode:
        path.chmod(mode)


def _require_own(path: Path, seen: os.stat_result, kind: str) -> None:
    is_kind = stat.S_ISDIR if kind == "a folder" else stat.S_ISREG
    problem = ""
    if not is_kind(seen.st_mode):
        problem = f"is not {kind}"
    elif seen.st_uid not in (0, os.getuid()):
        problem = f"belongs to uid {seen.st_uid}"
    if problem:
        raise HostNotReady(
            "the lock of this host was not created by gpuprov",
            evidence=f"{path} {problem}",
            fix=f"sudo rm -r {path}, then run this command again",
        )


def _name_groups(groups: Iterable[int]) -> str:
    return ", ".join(map(_name, sorted(groups)))


def _name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
