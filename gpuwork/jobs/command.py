"""A command of Slurm's, with a time limit and a size limit for what it says."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.limits import MIB
from gpuwork.errors import SlurmError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_BYTES: Final = 32 * MIB
_SHOWN: Final = 2000
# What a user exports for commands of his own would change what these are told, and how they say it.
_FOREIGN: Final = ("SBATCH_", "SCANCEL_", "SLURM_", "SQUEUE_")
_KEPT: Final = ("SLURM_CONF",)


def ask(argv: Sequence[str], *, limit_s: float, most_bytes: int = _MOST_BYTES) -> str:
    """What a command says on stdout.

    Raises:
        SlurmError: It is not there, failed, hung, or said more than it may.
    """
    env = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(_FOREIGN)}
    late = threading.Event()
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603  (built here from checked parts)
                [*argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env={**env, "LC_ALL": "C"},
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise _failed(argv, str(error)) from error
        assert process.stdout is not None  # noqa: S101  (a pipe was asked for)

        def expire() -> None:
            late.set()
            _kill(process)

        timer = threading.Timer(limit_s, expire)
        timer.start()
        try:
            said = process.stdout.read(most_bytes + 1)
            if len(said) <= most_bytes:
                process.wait()
        finally:
            _kill(process)
            process.stdout.close()
            process.wait()
            timer.cancel()
        errors.seek(0)
        words = errors.read(_SHOWN).decode(errors="replace").strip()
    if late.is_set():
        raise _failed(argv, f"no answer within {limit_s:g} s{f': {words}' if words else ''}")
    if len(said) > most_bytes:
        raise _failed(argv, f"it printed more than {most_bytes:,} bytes")
    if process.returncode != 0:
        raise _failed(argv, words or f"exit status {process.returncode}")
    return said.decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # not waited for yet, so that nothing else can have its number
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _failed(argv: Sequence[str], evidence: str) -> SlurmError:
    shown = shlex.join(argv)
    return SlurmError(f"{argv[0]} failed", evidence=f"{shown[:300]}: {evidence}", fix="scontrol ping; sinfo")
