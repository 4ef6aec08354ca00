"""`image list`: the node images of every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import ImageState, NodeState


def images_document(
    found: Iterable[tuple[str, ImageState]], builders: Iterable[tuple[str, NodeState]], *, host: str
) -> dict[str, Any]:
    """Images, and nodes in which one is or was being made, each with the name of its engine."""
    images = [
        {
            "name": image.name,
            "engine": engine,
            "size_bytes": image.size_bytes,
            "created": image.created,
            "labels": dict(image.labels),
        }
        for engine, image in found
    ]
    unfinished = [{"name": builder.name, "engine": engine, "status": builder.status} for engine, builder in builders]
    return document("images", host=host, images=images, unfinished=unfinished)
