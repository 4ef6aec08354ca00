"""Python wheels for a node, fetched on the host: a node behind a proxy or a private authority cannot ask an index."""

from __future__ import annotations

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
from gpuprov.core.follower import Follower
from gpuprov.core.limits import Limits
from gpuprov.core.silence_limit import more_patience, silence_limit_s
from gpuprov.provision.pip_answers import ConflictReasons, decide_fix
from gpuprov.provision.unfinished import unfinished_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ANSWER_S = 30
_WITH_US = ("setpriv", "--pdeathsig=KILL")  # where gpuprov is killed, pip does not go on in a folder that is removed
# pip does not take a newer platform to include the older ones.
_GLIBC_MINORS = (34, 31, 28, 27, 24, 17)


def render_download(requirements: Sequence[str], *, python: str, target: Path) -> list[str]:
    """The command line that fetches wheels for a node's Python, such as 3.11, and pip itself to install them with."""
    machine = platform.machine()
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS] + [f"manylinux2014_{machine}"]
    return [
        *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--progress-bar=off"),
        *("--only-binary=:all:", "--implementation=cp", f"--python-version={python}", f"--dest={target}"),
        *(f"--platform={name}" for name in platforms),
        *(f"--timeout={ANSWER_S}", "--retries=1"),
        "pip",
        *requirements,
    ]


def ensure_wheels(
    requirements: Sequence[str],
    *,
    python: str,
    cache: Path,
    silence_s: float | None = None,
    follower: Follower | None = None,
) -> list[Path]:
    """The wheels of the requirements and all they need, for CPython `python` on this machine's processor; kept.

    What pip had fetched when it was ended is in pip's own cache, from which the next run takes it.

    Args:
        requirements: As pip writes them.
        python: Of the node, such as 3.11.
        cache: Where they are kept.
        silence_s: For how long pip may do nothing; None for the usual limit.
        follower: Hears what pip says, and may end it.

    Raises:
        HostNotReady: The index does not answer, or has no such package.
        TimedOut: pip did nothing for `silence_s`.
    """
    limit_s = silence_s or silence_limit_s()
    key = short(fingerprint([platform.machine(), python, *requirements]))
    kept = cache / f"wheels-{python}-{key}"
    if not kept.is_dir():
        unfinished, reasons = unfinished_folder(cache, "wheels"), ConflictReasons()
        heard = follower or Follower()

        def hear(lines: Sequence[str]) -> None:
            reasons.hear(lines)
            heard.hear(lines)

        try:
            argv = render_download(requirements, python=python, target=unfinished)
            starter = _WITH_US if shutil.which(_WITH_US[0]) else ()
            run_followed(argv, limits=Limits(silence_s=limit_s), follower=replace(heard, hear=hear), starter=starter)
            unfinished.replace(kept)
        except (CommandFailed, TimedOut) as failed:
            fix = room_fix(failed.evidence, tempfile.gettempdir(), cache) or decide_fix(failed.evidence, python)
            evidence = "\n".join([failed.evidence, *reasons.lines])
            names = " ".join(requirements)
            raise type(failed)(
                f"could not download the Python packages of the image ({names}): {failed.what}",
                evidence=evidence,
                fix=f"{fix}; {more_patience(limit_s)}" if isinstance(failed, TimedOut) else fix,
            ) from failed
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return sorted(kept.glob("*.whl"))
