"""Which user of the host a user of a node is, in a folder that is mounted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

_REMAPPED = re.compile(r"(?:.*/)?([0-9]{1,10})\.[0-9]{1,10}", re.ASCII)  # Docker's own folder ends in `UID.GID` then


def get_mapped_owner(info: Mapping[str, Any], uid: int) -> int:
    """By what `docker info` says.

    Raises:
        EngineError: Docker maps users, and does not tell where to.
    """
    options = [option.partition(",")[0] for option in info.get("SecurityOptions") or ()]
    if not {"name=userns", "name=rootless"} & set(options):
        return uid
    folder = str(info.get("DockerRootDir", ""))
    remapped = _REMAPPED.fullmatch(folder)
    if "name=rootless" in options or not remapped:
        raise EngineError(
            f"docker does not report which user of the host is user {uid} of its nodes",
            evidence=f"security options: {', '.join(options)}; its folder: {folder or 'unknown'}",
            fix="use Docker without a user namespace, or --engine lxd; docker info shows its security options",
        )
    return int(remapped[1]) + uid
