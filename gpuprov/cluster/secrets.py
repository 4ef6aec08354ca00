"""The ssh key pair of a cluster, in this user's own folder."""

from __future__ import annotations

import os
import shutil
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.execution import run
from gpuprov.core.names import check_cluster_name
from gpuprov.core.own_folders import make_own_folder, own_folder

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.rollback import Rollback

_KEYGEN_BUDGET_S = 30.0


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
    return own_folder("XDG_DATA_HOME", ".local/share") / "gpuprov"


def ensure_ssh_key(cluster: str) -> str:
    """Make this user's key pair for a cluster if there is none; returns the public key line."""
    private = key_folder(cluster) / "id_ed25519"
    if not private.with_suffix(".pub").exists() or not private.exists():
        make_own_folder(private.parent, variable="XDG_DATA_HOME")
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
