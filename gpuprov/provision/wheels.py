"""Python wheels for a node, fetched on the host: a node behind a proxy or a private authority cannot ask an index."""

from __future__ import annotations

import contextlib
import platform
import shutil
import sys
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.core.errors import TimedOut
from gpuprov.core.execution import CommandFailed, run_followed
from gpuprov.core.exhaustion import room_fix
from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.core.folder_lock import folder_lock
from gpuprov.core.follower import Follower
from gpuprov.core.limits import Limits
from gpuprov.core.silence_limit import more_patience, silence_limit_s
from gpuprov.provision.kept_bases import mark_as_taken
from gpuprov.provision.pip_answers import ConflictReasons, decide_fix, is_conflict
from gpuprov.provision.unfinished import unfinished_folder
from gpuprov.provision.wheel_lock import WheelLock, find_lock, require_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpuprov.provision.wheel_lock import LockedPackage

ANSWER_S = 30
_WITH_US = ("setpriv", "--pdeathsig=KILL")  # where gpuprov is killed, pip does not go on in a folder that is removed
# pip does not take a newer platform to include the older ones.
_GLIBC_MINORS = (34, 31, 28, 27, 24, 17)


def wheel_platforms(machine: str) -> list[str]:
    """The platforms whose wheels the nodes' C library takes, as pip names them."""
    return [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS] + [f"manylinux2014_{machine}"]


def render_download(what: Sequence[str], *, python: str, target: Path) -> list[str]:
    """The command line that fetches wheels for a node's Python, such as 3.11."""
    return [
        *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--progress-bar=off"),
        *("--only-binary=:all:", "--implementation=cp", f"--python-version={python}", f"--dest={target}"),
        *(f"--platform={name}" for name in wheel_platforms(platform.machine())),
        *(f"--timeout={ANSWER_S}", "--retries=1"),
        *what,
    ]


def ensure_wheels(
    requirements: Sequence[str],
    *,
    python: str,
    cache: Path,
    silence_s: float | None = None,
    follower: Follower | None = None,
    fresh: bool = False,
) -> list[Path]:
    """The wheels of the requirements and all they need, and pip to install them with; kept.

    They are for CPython `python` on this machine's processor. What gpuprov needs comes in the versions of its lock,
    and only with their hashes; what a user asks for besides may need other versions, which have no hashes.
    What pip had fetched when it was ended is in pip's own cache, from which the next run takes it.

    Args:
        requirements: As pip writes them.
        python: Of the node, such as 3.11.
        cache: Where they are kept.
        silence_s: For how long pip may do nothing; None for the usual limit.
        follower: Hears what pip says, and may end it.
        fresh: Whether to look for newer versions of what has no lock.

    Raises:
        HostNotReady: The index does not answer, or has no such package, or another one than the lock says.
        TimedOut: pip did nothing for `silence_s`.
    """
    limit_s = silence_s or silence_limit_s()
    wanted = ("pip", *requirements)
    lock = find_lock(wanted, python) or WheelLock(roots=(), packages=())
    locked, unlocked = lock.closure(wanted, python), not lock.roots_include(wanted)
    key = short(fingerprint([platform.machine(), python, *requirements, *(one.dump() for one in locked)]))
    kept = cache / f"wheels-{python}-{key}"
    if not (fresh and unlocked) and _take_wheels(kept):
        return sorted(kept.glob("*.whl"))
    unfinished, reasons = unfinished_folder(cache, "wheels"), ConflictReasons()
    heard = follower or Follower()

    def hear(lines: Sequence[str]) -> None:
        reasons.hear(lines)
        heard.hear(lines)

    def fetch(what: Sequence[str]) -> None:
        reasons.lines.clear()
        argv = render_download(what, python=python, target=unfinished)
        run_followed(argv, limits=Limits(silence_s=limit_s), follower=replace(heard, hear=hear), starter=_starter())

    try:
        if unlocked:
            _fetch_open(wanted, locked, unfinished, fetch)
        else:
            fetch(_only_locked(locked, unfinished))
        _keep_wheels(unfinished, kept)
    except (CommandFailed, TimedOut) as failed:
        fix = room_fix(failed.evidence, tempfile.gettempdir(), cache) or decide_fix(failed.evidence, python)
        raise _explained(failed, requirements, fix=fix, reasons=reasons, limit_s=limit_s) from failed
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return sorted(kept.glob("*.whl"))


def _take_wheels(kept: Path) -> bool:
    """Whether they are there; from now on no refresh removes them for an hour."""
    with contextlib.suppress(FileNotFoundError), folder_lock(kept.parent, waits=True):
        mark_as_taken(kept)
        return True
    return False


def _keep_wheels(fetched: Path, kept: Path) -> None:
    """Put what was fetched in its place."""
    with folder_lock(kept.parent, waits=True):
        shutil.rmtree(kept, ignore_errors=True)
        fetched.replace(kept)
        mark_as_taken(kept)


def _explained(
    failed: CommandFailed | TimedOut, requirements: Sequence[str], *, fix: str, reasons: ConflictReasons, limit_s: float
) -> CommandFailed | TimedOut:
    """The same error, with the packages that could not be fetched and what to do about it."""
    return type(failed)(
        f"could not download the Python packages of the image ({' '.join(requirements)}): {failed.what}",
        evidence="\n".join([failed.evidence, *reasons.lines]),
        fix=f"{fix}; {more_patience(limit_s)}" if isinstance(failed, TimedOut) else fix,
    )


def _starter() -> tuple[str, ...]:
    return _WITH_US if shutil.which(_WITH_US[0]) else ()


def _fetch_open(
    wanted: Sequence[str], locked: Sequence[LockedPackage], folder: Path, fetch: Callable[[Sequence[str]], None]
) -> None:
    """Fetch what has no lock, or only in part: in the versions of the lock where they fit the others."""
    try:
        fetch([*_as_constraints(locked, folder), *wanted])
    except CommandFailed as failed:
        if not locked or not is_conflict(failed.evidence):
            raise
        fetch(wanted)
    require_hashes(folder.glob("*.whl"), locked)


def _only_locked(locked: Sequence[LockedPackage], folder: Path) -> list[str]:
    """Options of pip: these and no others, whatever the Python that runs it needs."""
    file = folder / "locked.txt"
    file.write_text("".join(replace(one, pythons=()).dump() for one in locked), encoding="utf-8")
    return ["--no-deps", "--require-hashes", f"--requirement={file}"]


def _as_constraints(locked: Sequence[LockedPackage], folder: Path) -> list[str]:
    """Options of pip: these versions where a package is needed; pip takes hashes only where all have some."""
    if not locked:
        return []
    file = folder / "locked.txt"
    file.write_text("".join(f"{one.name}=={one.version}\n" for one in locked), encoding="utf-8")
    return [f"--constraint={file}"]
