"""A command, of Slurm's or of a user's, with a time limit and a size limit for what it says."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from gpuprov.shapes.limits import MIB
from gpuwork.errors import SlurmError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MOST_BYTES: Final = 32 * MIB
_SHOWN: Final = 2000
_OF: Final = " (of "
_PART_BYTES: Final = MIB
# What a user exports for commands of his own would change what these are told, and how they say it.
_FOREIGN: Final = ("SBATCH_", "SCANCEL_", "SLURM_", "SQUEUE_")
_KEPT: Final = ("SLURM_CONF",)


@dataclass(frozen=True, kw_only=True)
class Done:
    """What came of a command.

    Attributes:
        said: What it printed, or more than it may if that was too much.
        status: Its exit status.
        is_late: Whether it was killed because its time was over.
    """

    said: bytes
    status: int
    is_late: bool


def run_limited(  # noqa: PLR0913  (what a process is, and its limits)
    argv: Sequence[str],
    *,
    limit_s: float,
    most_bytes: int,
    errors: int | IO[bytes],
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
) -> Done:
    """Run a command; all of its process group is killed when its time is over, or when it prints too much.

    Raises:
        OSError: It does not start.
    """
    until = time.monotonic() + limit_s
    process = subprocess.Popen(  # noqa: S603  (of checked parts, or a user's own)
        [*argv], stdin=stdin, stdout=subprocess.PIPE, stderr=errors, env=dict(env), cwd=cwd, start_new_session=True
    )
    assert process.stdout is not None  # noqa: S101  (a pipe was asked for)
    said, is_late = bytearray(), False
    try:
        while len(said) <= most_bytes:
            # What it started in a session of its own, and so outlives it, may hold the pipe.
            left_s = until - time.monotonic()
            is_late = left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]
            part = b"" if is_late else os.read(process.stdout.fileno(), _PART_BYTES)
            if not part:
                break
            said += part
        if not is_late and len(said) <= most_bytes:
            process.wait(max(0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        is_late = True
    finally:
        _kill(process)
        process.stdout.close()
        process.wait()
    return Done(said=bytes(said), status=process.returncode, is_late=is_late)


def ask(argv: Sequence[str], *, limit_s: float, most_bytes: int = _MOST_BYTES) -> str:
    """What a command of Slurm's says on stdout.

    Raises:
        SlurmError: It is not there, failed, hung, or said more than it may.
    """
    env = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(_FOREIGN)}
    with tempfile.TemporaryFile() as errors:
        try:
            done = run_limited(argv, limit_s=limit_s, most_bytes=most_bytes, errors=errors, env={**env, "LC_ALL": "C"})
        except OSError as error:
            raise _failed(argv, str(error)) from error
        errors.seek(0)
        words = errors.read(_SHOWN).decode(errors="replace").strip()
    if done.is_late:
        raise _failed(argv, f"no answer within {limit_s:g} s{f': {words}' if words else ''}")
    if len(done.said) > most_bytes:
        raise _failed(argv, f"it printed more than {most_bytes:,} bytes")
    if done.status != 0:
        raise _failed(argv, words or f"exit status {done.status}")
    return done.said.decode(errors="replace")


def without_command(evidence: str) -> str:
    """The evidence of an error of `ask`, without the command that it ends with."""
    return evidence.rpartition(_OF)[0] or evidence


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # not waited for yet, so that nothing else can have its number
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _failed(argv: Sequence[str], evidence: str) -> SlurmError:
    shown = shlex.join(argv)
    return SlurmError(f"{argv[0]} failed", evidence=f"{evidence}{_OF}{shown[:300]})", fix="scontrol ping; sinfo")
