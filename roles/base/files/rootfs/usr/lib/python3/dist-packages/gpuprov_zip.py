"""Keeps what Python compiles out of zip files, as Python itself does for folders.

Every module of Ansible comes as a zip of sources, and Python compiles a source in a zip twice each time: zipimport
does so to learn the file's name. gpuprov_zip.pth turns this on where GPUPROV_KEEP_COMPILED is set, as gpuprov's
connection sets it; any other process imports as ever.
"""

from __future__ import annotations

import sys
import zipimport
from importlib.machinery import SourceFileLoader
from importlib.util import source_hash, spec_from_file_location
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import TraversableResources
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def install(folder: str) -> None:
    """Keep in this folder what is compiled out of zips from now on; where it cannot be written, nothing is kept."""

    class Keeping(KeepingZip):
        kept = folder

    sys.path_hooks[:] = [Keeping if hook is zipimport.zipimporter else hook for hook in sys.path_hooks]


class KeepingZip(zipimport.zipimporter):
    """Finds modules in a zip file; all but sources is left to zipimport."""

    kept = ""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's source and the loader for it."""
        base = f"{self.archive}/{self.prefix}{fullname.rpartition('.')[2]}"
        for path, places in ((f"{base}/__init__.py", [base]), (f"{base}.py", None)):
            try:
                source = self.get_data(path)
            except OSError:
                continue
            name = f"{fullname}.{source_hash(source).hex()}.{sys.implementation.cache_tag}.pyc"
            loader = KeptLoader(fullname, path, self, source, f"{self.kept}/{name}")
            return spec_from_file_location(fullname, path, loader=loader, submodule_search_locations=places)
        return super().find_spec(fullname, target)


class KeptLoader(SourceFileLoader):
    """Python's loader of source files, with the source in a zip and the compiled code in a file named by its hash."""

    def __init__(self, fullname: str, path: str, archive: zipimport.zipimporter, source: bytes, kept: str) -> None:
        super().__init__(fullname, path)
        self._archive = archive
        self._source = source
        self._kept = kept

    def path_stats(self, path: str) -> dict[str, int]:  # noqa: ARG002
        """The hash in the name says which source it is; a zip's times do not."""
        return {"mtime": 0, "size": len(self._source)}

    def get_data(self, path: str) -> bytes:
        """Source, compiled code, or any other file of the zip."""
        if path == self.path:
            return self._source
        return super().get_data(self._kept) if path.endswith(".pyc") else self._archive.get_data(path)

    def set_data(self, path: str, data: bytes, **options: int) -> None:  # type: ignore[override]  # noqa: ARG002
        """Write compiled code, in one step; Python goes on without where it cannot."""
        super().set_data(self._kept, data, **options)

    def get_resource_reader(self, name: str) -> TraversableResources | None:  # type: ignore[override]
        """The zip's own."""
        return self._archive.get_resource_reader(name)
