"""Mounts as people write them on a command line."""

from __future__ import annotations

from gpuprov.core.errors import UsageError
from gpuprov.shapes.cluster_spec import MountSpec


def parse_mount(text: str) -> MountSpec:
    """Read `SOURCE:TARGET` or `SOURCE:TARGET:ro`.

    Raises:
        UsageError: It is neither.
    """
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(parts) or parts[2:] not in ([], ["ro"], ["rw"]):
        raise UsageError(
            f"{text!r} is not a valid mount",
            evidence="allowed: SOURCE:TARGET or SOURCE:TARGET:ro",
            fix="gpuprov create-node c004 --mount /data:/data:ro",
        )
    return MountSpec(source=parts[0], target=parts[1], read_only=parts[2:] == ["ro"])
