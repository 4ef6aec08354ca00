"""The cluster's munge key: made once, kept in the nodes alone, and brought from node to node."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.drivers.base import File, Unreadable
from gpuprov.roles.secret_file import SecretFile
from gpuprov.roles.slurm.facts import slurm_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.shapes.engine import ImageState

LABEL_MUNGE_OWNER = "gpuprov.munge-owner"  # `uid:gid` of munge in an image, kept by the nodes made from it
_OWNER = re.compile(r"[0-9]{1,9}:[0-9]{1,9}", re.ASCII)
_KEY_BYTES = 128
KEY_FILE: Final = SecretFile(path=slurm_path("munge_key"), least_bytes=32, most_bytes=1024)  # limits of munge itself


def new_key() -> bytes:
    """For a cluster without nodes."""
    return secrets.token_bytes(_KEY_BYTES)


def read_key(driver: Driver, holders: Sequence[str], *, cluster: str) -> bytes:
    """The cluster's key: that of the first node which has one.

    Raises:
        EngineError: None of the nodes has a usable one, or one of them could not be asked.
    """
    path = KEY_FILE.path
    found, silent = "no key", None
    for holder in holders:
        try:
            key = driver.pull(holder, path, most_bytes=KEY_FILE.most_bytes)
        except Unreadable as error:
            found = error.evidence
            continue
        except EngineError as error:
            silent = error
            continue
        if len(key) >= KEY_FILE.least_bytes:
            return key
        found = f"{path} has {len(key)} bytes"
    if silent:  # it may have the key
        raise silent
    raise EngineError(
        f"{holders[0]} has no usable munge key, and neither does any other node",
        evidence=found,
        fix=f"gpuprov cluster down {cluster}  # then create it again: its nodes cannot authenticate each other",
    )


def key_file(key: bytes, owner: str) -> File:
    """The key as a file that only munge may read; `owner` is `uid:gid`."""
    uid, gid = (int(number) for number in owner.split(":"))
    return File(path=KEY_FILE.path, content=key, mode=0o400, uid=uid, gid=gid)


def present_owners(nodes: Sequence[NodeState]) -> dict[str, str]:
    """`uid:gid` of munge in each node: another image, such as a newer one, may have another."""
    labels = {node.name: node.labels.get(LABEL_MUNGE_OWNER, "") for node in nodes}
    return {name: owner for name, owner in labels.items() if _OWNER.fullmatch(owner)}


def find_owner(nodes: Sequence[NodeState], image: ImageState | None) -> str:
    """`uid:gid` of munge in the image of new nodes, else in that of present ones; empty where no label tells it.

    Raises:
        UsageError: The image was not built for Slurm.
    """
    if image is None:
        return next(iter(present_owners(nodes).values()), "")
    owner = image.labels.get(LABEL_MUNGE_OWNER, "")
    if not _OWNER.fullmatch(owner):
        raise UsageError(
            f"the image {image.name} does not support the role slurm",
            evidence=f"it has no valid label {LABEL_MUNGE_OWNER}, so gpuprov did not build it for that role",
            fix="omit --image, or use --role plain",
        )
    return owner
