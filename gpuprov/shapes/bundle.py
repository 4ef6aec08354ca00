"""`bundle`: which archive was made, and what runs on the host."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprov.shapes.base import Document, PartDocument


class Bundle(Document, frozen=True, kw_only=True, tag="gpuprov.bundle/v1"):
    """The document of `gpuprov bundle --json`: which archive was made.

    Attributes:
        host: Name of the host.
        bundle: Its path.
        missing: What could not be had, and why.
    """

    host: str
    bundle: str
    parts: tuple[str, ...]
    missing: Mapping[str, str]


class Versions(PartDocument, frozen=True, kw_only=True, tag="gpuprov.versions/v1"):
    """What runs on a host, as versions.json in a bundle tells it.

    Attributes:
        host: Name of the host.
        packages: Null for one that is not installed.
        system: Of /etc/os-release.
    """

    host: str
    gpuprov: str
    python: str
    packages: Mapping[str, str | None]
    kernel: str
    machine: str
    system: str | None
