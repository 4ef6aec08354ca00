"""`image list`: the node images of every engine."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document
from gpuprov.drivers.base import LABEL_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.cluster.image_updates import ImageUpdates
    from gpuprov.drivers.base import ImageState, NodeState
    from gpuprov.provision.cache_age import CacheAge


def images_document(
    found: Iterable[tuple[str, ImageState]],
    builders: Iterable[tuple[str, NodeState]],
    updates: Iterable[ImageUpdates],
    cache: CacheAge,
    *,
    host: str,
) -> dict[str, Any]:
    """Images, and nodes in which one is or was being made, each with the name of its engine; the age of the cache.

    Args:
        found: The images.
        builders: The nodes.
        updates: Of each image.
        cache: What images are built from.
        host: Name of this machine.
    """
    images = [
        {
            "name": image.name,
            "engine": engine,
            "size_bytes": image.size_bytes,
            "created": image.created,
            "labels": {name: value for name, value in image.labels.items() if name != LABEL_PACKAGES},
            "security": {"state": of_it.state, "lacking": list(of_it.lacking), "looked": _when(of_it.looked)},
        }
        for (engine, image), of_it in zip(found, updates, strict=True)
    ]
    unfinished = [{"name": builder.name, "engine": engine, "status": builder.status} for engine, builder in builders]
    times = {"bases": list(map(_when, cache.bases)), "wheels": list(map(_when, cache.wheels))}
    kept = {"folder": str(cache.folder), **times}
    return document("images", host=host, images=images, unfinished=unfinished, cache=kept)


def _when(seconds: float | None) -> str | None:
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, tz=timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
