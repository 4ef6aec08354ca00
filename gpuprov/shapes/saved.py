"""What the archive of a saved cluster says of itself."""

from __future__ import annotations

from gpuprov.shapes.base import Shape
from gpuprov.shapes.words import Word


class SavedCluster(Shape, frozen=True, kw_only=True, tag_field="version", tag="gpuprov.saved-cluster/v1"):
    """saved.json in the archive of `gpuprov cluster save`.

    Attributes:
        host: Name of the host.
        gpuprov: Version that saved it.
        saved: When, such as 2026-11-28T10:00:00Z.
        first_user: The number on that host of the user that is root in the nodes.
        shared: Whether the files of the folder that the nodes shared are in it.
        figures: Whether what accounting had on record is in it.
    """

    host: str
    cluster: Word
    gpuprov: str
    saved: str
    first_user: int
    shared: bool
    figures: bool = False
