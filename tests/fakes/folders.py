"""The folders of a fake host, in memory: what is in them is a list of names."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuprov.core.disk import Usage
from gpuprov.core.errors import HostNotReady
from gpuprov.machine.folders import FolderLook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpuprov.core.disk import Disk


@dataclass(kw_only=True)
class FakeFolders:
    """Folders by path.

    Attributes:
        there: What stands at each path; at any other one there is nothing.
        aside: What was set aside, by the path where it stood.
        can_give: Whether this process is root's.
        reach: Is told each step and its path, and may end the process there.
        marks: What was left in folders, by path and name; hosts with the same folder have the same.
        disks: How full the disk of each path is.
    """

    there: dict[str, FolderLook] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)
    can_give: bool = True
    reach: Callable[[str, str], None] = lambda _step, _path: None
    marks: dict[tuple[str, str], str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)

    def add(self, path: str, *, owner: int = 0, empty: bool = True) -> None:
        self.there[path] = FolderLook(kind="folder", at=path, owner=owner, empty=empty)

    def look(self, path: str) -> FolderLook:
        found = self.there.get(path, FolderLook(kind="absent", at=path))
        return replace(found, can_give=self.can_give)

    def disk(self, path: str) -> Disk | None:
        return self.disks.get(path)

    def usage(self, path: str) -> Usage:
        return Usage(largest=(("jobs/7", 3 << 30, 5), ("data", 1 << 30, 9)) if path in self.disks else ())

    def make(self, path: str, *, owner: int, mode: int = 0o750) -> None:
        with self._step("make_folder", path):
            if path not in self.there:
                self.add(path)
            self.reach("make_folder:new", path)
            self.there[path] = replace(self.there[path], owner=owner)
            self.modes[path] = mode

    def drop(self, path: str) -> None:
        with self._step("drop_folder", path):
            if path in self.there and not self.look(path).empty:
                raise HostNotReady(f"the folder {path} cannot be removed", evidence="Directory not empty", fix="ls")
            self.there.pop(path, None)

    def empty(self, path: str, *, owner: int) -> None:
        with self._step("empty_folder", path):
            assert self.there[path].owner == owner
            self.there[path] = replace(self.there[path], empty=True)

    def set_aside(self, path: str) -> None:
        with self._step("set_folder_aside", path):
            del self.there[path]
            self.aside.append(path)

    def clear(self, path: str) -> None:
        with self._step("clear_folder", path):
            self.aside = [other for other in self.aside if other != path]

    def leave_marks(self, path: str, texts: Mapping[str, str]) -> None:
        with self._step("leave_marks", path):
            self.marks.update({(path, name): text for name, text in texts.items()})

    def read_mark(self, path: str, name: str) -> str:
        return self.marks.get((path, name), "")

    def remove_mark(self, path: str, name: str) -> None:
        with self._step("remove_mark", path):
            self.marks.pop((path, name), None)

    @contextmanager
    def _step(self, step: str, path: str) -> Iterator[None]:
        self.reach(step, path)
        yield
        self.reach(f"{step}:done", path)
