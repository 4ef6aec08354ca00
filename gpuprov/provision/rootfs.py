"""The base root file system of an image: built by mmdebstrap from the distribution's packages, kept in a cache."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.core.execution import CommandFailed, CommandMissing, run
from gpuprov.core.exhaustion import room_fix
from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.core.limits import Limits
from gpuprov.provision.patience import more_patience, silence_limit_s
from gpuprov.provision.unfinished import unfinished_file

if TYPE_CHECKING:
    from collections.abc import Sequence

UBUNTU_SUITES = frozenset({"jammy", "noble"})
ANSWER_S = 30
# Documentation and translations are a third of the files, and the number of files is what a copy or a start costs.
_DPKG_OPTIONS = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
)
# mmdebstrap leaves the names and resolvers of this machine behind.
_CLEAN = 'rm -f "$1/etc/hostname" "$1/etc/resolv.conf"; : > "$1/etc/machine-id"'


def default_cache() -> Path:
    """Where root file systems and wheels are kept: of the machine for root, else of the user."""
    return Path("/var/cache/gpuprov") if os.geteuid() == 0 else Path.home() / ".cache" / "gpuprov"


def render_mmdebstrap(suite: str, packages: Sequence[str], target: Path) -> list[str]:
    """The command line that builds the tar."""
    return [
        "mmdebstrap",
        "--variant=apt",
        "--format=tar",
        f"--components={'main,universe' if suite in UBUNTU_SUITES else 'main'}",
        '--aptopt=Apt::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
        # A mirror that hangs fails here and, as the image keeps these lines, in the node; apt waits for two minutes.
        *(f'--aptopt=Acquire::{scheme}::Timeout "{ANSWER_S}"' for scheme in ("http", "https")),
        '--aptopt=Acquire::Retries "1"',
        *(f"--dpkgopt={option}" for option in _DPKG_OPTIONS),
        f"--customize-hook={_CLEAN}",
        f"--include={','.join(packages)}",
        suite,
        str(target),
    ]


def ensure_rootfs(suite: str, packages: Sequence[str], *, cache: Path, silence_s: float | None = None) -> Path:
    """The tar of a suite with packages; built once and kept.

    Args:
        suite: Of the distribution.
        packages: Of the distribution.
        cache: Where it is kept.
        silence_s: For how long mmdebstrap may do nothing; None for the usual limit.

    Raises:
        HostNotReady: mmdebstrap is missing, or it failed.
        TimedOut: It did nothing for `silence_s`, as where a mirror does not answer.
    """
    limit_s = silence_s or silence_limit_s()
    key = short(fingerprint(render_mmdebstrap(suite, packages, Path("-"))))
    kept = cache / f"rootfs-{suite}-{key}.tar"
    if kept.is_file():
        return kept
    unfinished = unfinished_file(cache, "rootfs")
    argv = render_mmdebstrap(suite, packages, unfinished)
    try:
        run(argv, timeout_s=Limits(silence_s=limit_s))
        unfinished.replace(kept)
    except CommandMissing as missing:
        raise HostNotReady(
            "mmdebstrap is not installed; it builds the base of an image",
            evidence=missing.evidence,
            fix="sudo gpuprov host prepare",
        ) from missing
    except (CommandFailed, TimedOut) as failed:
        fix = room_fix(failed.evidence, tempfile.gettempdir(), cache) or _fix(suite, failed.evidence)
        raise type(failed)(
            f"the base root file system {suite} could not be built: {failed.what}",
            evidence=failed.evidence,
            fix=f"{fix}; {more_patience(limit_s)}" if isinstance(failed, TimedOut) else fix,
        ) from failed
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
    return kept


def _fix(suite: str, evidence: str) -> str:
    if "NO_PUBKEY" in evidence:
        return "apt-get install ubuntu-keyring debian-archive-keyring  # the keys of the suite's distribution"
    by_hand = f"mmdebstrap --variant=apt {suite} /dev/null"
    return f"check whether this machine can reach the mirror: apt-get update; then manually: {by_hand}"
