"""Which packages a module of a project needs when it is imported, so that nodes are asked for them.

What `gpuwork.project_imports` finds: nodes and `--local` go by the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from gpuprov.project.order_check import ask_here

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_PROGRAM: Final = ("-S", "-m", "gpuwork.project_imports")


def ask_imports(project: Path, files: Collection[str], module: str) -> Mapping[str, str]:
    """The packages beyond Python's own and the project's: name to `FILE:LINE`.

    Args:
        files: What belongs to it, relative to the folder.
        module: Where it begins, such as `src.job`.

    Raises:
        HostNotReady: The program does not run here.
        TimedOut: The project could not be looked through in time.
    """
    asked = {"project": str(project.absolute()), "files": [*files], "module": module}
    told: Mapping[str, str] = ask_here(_PROGRAM, stdin=json.dumps(asked))["imports"]
    return told
