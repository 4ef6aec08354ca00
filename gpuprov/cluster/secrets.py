"""Keys of a cluster: the munge key lives in its nodes only, the ssh key pair in this user's own folder."""

from __future__ import annotations

import os
import secrets
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.core.execution import run
from gpuprov.core.names import check_cluster_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.rollback import Rollback
    from gpuprov.drivers.base import Driver

MUNGE_KEY = "/etc/munge/munge.key"
_MUNGE_KEY_BYTES = 128
_MUNGE_KEY_MIN_BYTES = 32  # of munge itself
_PRIVATE_MODE = 0o700
_KEYGEN_BUDGET_S = 30.0


def munge_key(driver: Driver, holders: Sequence[str]) -> bytes:
    """The cluster's munge key: that of the first node which has one, or a new one for a cluster without nodes.

    Raises:
        EngineError: None of the nodes has a usable one.
    """
    if not holders:
        return secrets.token_bytes(_MUNGE_KEY_BYTES)
    found = "no key"
    for holder in holders:
        try:
            key = driver.pull(holder, MUNGE_KEY)
        except EngineError as error:
            found = error.evidence
            continue
        if len(key) >= _MUNGE_KEY_MIN_BYTES:
            return key
        found = f"{MUNGE_KEY} has {len(key)} bytes"
    raise EngineError(
        f"{holders[0]} has no usable munge key, and neither does any other node",
        evidence=found,
        fix="gpuprov cluster down, then up: the nodes cannot authenticate each other",
    )


def key_folder(cluster: str) -> Path:
    """This user's folder for the keys of a cluster.

    Raises:
        UsageError: It is no cluster's name; as a path it might lead anywhere.
    """
    return _keys() / check_cluster_name(cluster)


def undo_new_keys(cluster: str, rollback: Rollback) -> None:
    """Have a run that fails take back the keys that it will make; those that are there stay."""
    if not key_folder(cluster).exists():
        rollback.add("the ssh keys", partial(remove_keys, cluster), needed=True)


def private_keys() -> list[bytes]:
    """This user's private ssh keys, of all clusters."""
    return [path.read_bytes() for path in sorted(_keys().glob("*/id_ed25519")) if os.access(path, os.R_OK)]


def _keys() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "gpuprov"


def ensure_ssh_key(cluster: str) -> str:
    """Make this user's key pair for a cluster if there is none; returns the public key line."""
    private = key_folder(cluster) / "id_ed25519"
    if not private.with_suffix(".pub").exists() or not private.exists():
        private.parent.mkdir(mode=_PRIVATE_MODE, parents=True, exist_ok=True)
        private.unlink(missing_ok=True)
        run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"gpuprov-{cluster}", "-f", str(private)],
            timeout_s=_KEYGEN_BUDGET_S,
        )
    return private.with_suffix(".pub").read_text(encoding="ascii").strip()


def remove_keys(cluster: str) -> bool:
    """Remove this user's keys of a cluster; whether there were any."""
    folder = key_folder(cluster)
    if not folder.exists():
        return False
    shutil.rmtree(folder)
    return True
