"""The certificate of one run: whoever has its key takes part, and nobody else is listened to."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

from gpuwork.errors import HostLacks
from gpuwork.programs.run_folder import CERTIFICATE, KEY

if TYPE_CHECKING:
    from pathlib import Path

    from distributed.security import Security

_DAYS: Final = 3650  # no run ends for want of it; its key is removed when the run ends
_LIMIT_S: Final = 60


def make_certificate(run: Path) -> None:
    """Write a new key, which this account alone can read, and its certificate into the folder of a run.

    Raises:
        HostLacks: openssl is not there, or failed.
    """
    key = os.open(run / KEY, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    os.close(key)
    argv = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", str(run / KEY), "-out", str(run / CERTIFICATE), "-days", str(_DAYS), "-subj", "/CN=gpuwork"),
    ]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_LIMIT_S, check=False, stdin=subprocess.DEVNULL)  # noqa: S603
        said, failed = done.stderr.decode(errors="replace").strip()[-500:], done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        said, failed = str(error), True
    if failed:
        raise HostLacks("the certificate of the run cannot be made", evidence=said, fix="openssl version")


def read_security(run: Path) -> Security:
    """What Dask is told: it encrypts, and asks the other side for the same certificate."""
    from distributed.security import Security

    ends = {}
    for end in ("scheduler", "worker", "client"):
        ends[f"tls_{end}_cert"] = str(run / CERTIFICATE)
        ends[f"tls_{end}_key"] = str(run / KEY)
    return Security(tls_ca_file=str(run / CERTIFICATE), require_encryption=True, **ends)
