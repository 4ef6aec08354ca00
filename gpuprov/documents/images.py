"""`image list`: the node images of every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import ImageState


def images_document(found: Iterable[tuple[str, ImageState]], *, host: str) -> dict[str, Any]:
    """Images, each with the name of its engine."""
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
    return document("images", host=host, images=images)
