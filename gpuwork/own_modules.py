"""A project's modules come before those that are installed, as they do for `python3 job.py`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType


def import_own(module: str, *folders: str) -> ModuleType:
    """Import a module of a project whose folders are looked through first of all.

    What this package has imported keeps working. Of its names, the project gets those of packages back, and the one of
    its own first module; the others stay Python's, as other packages need them. No module of the project runs twice.

    Args:
        folders: Where modules of the project are.
    """
    sys.path[:] = dict.fromkeys((*folders, *sys.path))
    first = module.partition(".")[0]
    for name in {one.partition(".")[0] for one in sys.modules} - {"gpuwork", "__main__", *sys.builtin_module_names}:
        if (name == first or name not in sys.stdlib_module_names) and _is_hidden(name, folders):
            for loaded in [one for one in sys.modules if one.partition(".")[0] == name]:
                del sys.modules[loaded]
    importlib.invalidate_caches()
    return importlib.import_module(module)


def _is_hidden(name: str, folders: Iterable[str]) -> bool:
    """Whether the project has a module of this name, and another one has been imported."""
    files = [Path(folder, file) for folder in folders for file in (f"{name}.py", f"{name}/__init__.py")]
    own = [str(file.absolute()) for file in files if file.is_file()]
    return bool(own) and getattr(sys.modules.get(name), "__file__", None) not in own
