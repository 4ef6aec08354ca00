"""How a module of this package is started as a process, wherever the package lies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_HOME: Final = Path(__file__).resolve().parents[1]


def python_argv(*, isolated: bool | None = None) -> list[str]:
    """This Python, which, if isolated, runs nothing of its account's (`usercustomize`); None: as this process is."""
    return [sys.executable, "-I"] if (sys.flags.isolated if isolated is None else isolated) else [sys.executable]


def program_argv(module: str, *arguments: str, isolated: bool | None = None) -> list[str]:
    """The command that calls `main` of a module with these arguments, with this Python."""
    # Its folder is on sys.path only until it is imported: what lies beside it is no part of a user's program.
    start = (
        f"import sys; sys.path[:] = [{str(_HOME)!r}, *filter(None, sys.path)]; "
        f"from {module} import main; del sys.path[0]; main(*sys.argv[1:])"
    )
    return [*python_argv(isolated=isolated), "-c", start, *arguments]
