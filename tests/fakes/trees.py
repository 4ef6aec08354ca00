"""Files and folders of fake nodes as tars: a folder is what a file's path goes through, or what was put there."""

from __future__ import annotations

import io
import posixpath
import tarfile
from abc import abstractmethod
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import File
from gpuprov.drivers.node_trees import ITEM, WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpuprov.drivers.base import PathKind
    from tests.fakes.engine import FakeEngine, FakeNode

EVERYWHERE = ("/", "/root", "/tmp", "/opt", "/etc")  # folders that are there without a file in them


class FakeTrees:
    """The part of the fake driver that looks into nodes and copies trees."""

    engine: FakeEngine

    @abstractmethod
    def reach(self, step: str, subject: str) -> None: ...

    @abstractmethod
    def _running(self, name: str) -> FakeNode: ...

    def look(self, name: str, path: str) -> PathKind:
        """What its files say."""
        self.reach("look", name)
        with self.engine.lock:
            files = self._running(name).files
        plain = path.rstrip("/") or "/"
        if plain in files:
            return "file"
        inside = any(there.startswith(f"{plain}/") for there in files)
        return "folder" if inside or plain in EVERYWHERE else "absent"

    def read_tree(self, name: str, path: str, take: Callable[[bytes], object]) -> str:
        """The tar that the engine has for the path, else one of its files."""
        self.reach("read_tree", name)
        with self.engine.lock:
            files = dict(self._running(name).files)
        tar = self.engine.tars.get(path)
        packed = pack_tree(files, path) if tar is None else tar
        for start in range(0, len(packed), 1000):
            take(packed[start : start + 1000])
        self.reach("read_tree:done", name)
        return ""

    def write_tree(self, name: str, path: str, tar: Iterable[bytes]) -> None:
        """Take all of it, then write its files."""
        self.reach("write_tree", name)
        with self.engine.lock:
            node = self._running(name)
        if self.look(name, posixpath.dirname(path)) != "folder":
            raise _unwritten(name, path, "no such folder")
        files: dict[str, File] = {}
        with tarfile.open(fileobj=io.BytesIO(b"".join(tar))) as members:
            names = members.getnames()
            for member in members:
                content = members.extractfile(member)
                if content is not None and member.name != WHOLE:
                    place = path + member.name.removeprefix(ITEM)
                    files[place] = File(path=place, content=content.read(), mode=member.mode)
        if WHOLE not in names or ITEM not in names:
            raise _unwritten(name, path, "the archive is not complete")
        self.reach("write_tree:made", name)
        with self.engine.lock:
            node.files.update(files)
        self.reach("write_tree:done", name)


def pack_tree(files: dict[str, File], path: str) -> bytes:
    """The tar of a file or folder, as GNU tar makes it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        if path in files:
            _add(tar, f"./{posixpath.basename(path)}", files[path])
            return _closed(tar, packed)
        folders = {"."}
        _add_folder(tar, "./")
        for place in sorted(there for there in files if there.startswith(f"{path}/")):
            name = "." + place.removeprefix(path)
            parts = name.split("/")
            for count in range(2, len(parts)):
                folder = "/".join(parts[:count])
                if folder not in folders:
                    folders.add(folder)
                    _add_folder(tar, f"{folder}/")
            _add(tar, name, files[place])
        return _closed(tar, packed)


def _closed(tar: tarfile.TarFile, packed: io.BytesIO) -> bytes:
    tar.close()
    return packed.getvalue()


def _add(tar: tarfile.TarFile, name: str, file: File) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(file.content), file.mode
    tar.addfile(member, io.BytesIO(file.content))


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(member)


def _unwritten(name: str, path: str, evidence: str) -> EngineError:
    return EngineError(f"fake: cannot write {path} in {name}", evidence=evidence, fix=f"look: gpuprov shell {name}")
