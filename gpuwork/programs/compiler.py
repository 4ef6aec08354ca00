"""A run of a compiler: with limits, and what it complains about as faults with file and line."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.faults import Fault
from gpuwork.child import run_group
from gpuwork.errors import TimedOut
from gpuwork.untrusted_files import read_part

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPILE_S: Final = 600.0
_MOST_SAID: Final = 512 * 1024
_MOST_FAULTS: Final = 20
_LINE: Final = re.compile(
    r"(?P<file>[^:()\n]{1,500})(?::(?P<line>\d{1,7})(?::\d+)?|\((?P<paren>\d{1,7})\)): "
    r"(?:fatal )?(?:catastrophic )?error(?: #?[\w-]+)?: (?P<said>.{1,1000})"
)
_LINKER: Final = re.compile(
    r".{0,500}(undefined reference to .{1,300}|multiple definition of .{1,300}|cannot find .{1,300})"
)


def compile_sources(argv: Sequence[str], *, folder: Path, limit_s: float = COMPILE_S) -> list[Fault]:
    """Run a compiler; what it complains about, and nothing if it succeeded.

    Args:
        folder: Where it begins; names of files are given relative to it.
        limit_s: How long it may take.

    Raises:
        TimedOut: It took too long.
    """
    with tempfile.TemporaryDirectory() as place:
        log = Path(place, "said")
        env = {**os.environ, "LC_ALL": "C", "TMPDIR": place}
        status = run_group(argv, cwd=folder, env=env, log=log, stop=Event(), limit_s=limit_s)
        said = (read_part(log, start=0, most_bytes=_MOST_SAID) or (b"", 0))[0].decode(errors="replace")
    if status is None:
        raise TimedOut(
            f"{Path(argv[0]).name} did not end within {limit_s:g} s",
            evidence=said[-500:],
            fix=f"compile a part of it by hand: {' '.join(argv)}",
        )
    return [] if status == 0 else read_complaints(said, folder, Path(argv[0]).name)


def read_complaints(said: str, folder: Path, program: str) -> list[Fault]:
    """What a compiler or linker that failed said: each complaint once."""
    faults = []
    for line in said.splitlines():
        found, linked = _LINE.match(line), _LINKER.match(line)
        if found is not None:
            number = int(found["line"] or found["paren"])
            faults.append(Fault(file=_relative(found["file"], folder), line=number, message=found["said"].strip()))
        elif linked is not None:
            faults.append(Fault(file=program, message=linked[1]))
    if not faults:
        last = [line for line in said.splitlines() if line.strip()][-5:]
        faults = [Fault(file=program, message=" / ".join(last)[:1000] or "failed and printed nothing")]
    return list(dict.fromkeys(faults))[:_MOST_FAULTS]


def _relative(name: str, folder: Path) -> str:
    path = os.path.normpath(folder / name)
    return os.path.relpath(path, folder) if path.startswith(f"{folder}/") else name
