"""`image list`: the node images of every engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.choices import Engine
from gpuprov.shapes.node import NodeStatus
from gpuprov.shapes.words import Size


class ImageSecurity(Shape, frozen=True, kw_only=True):
    """The security updates of an image's distribution.

    Attributes:
        lacking: Packages that have an update.
        looked: When updates were last looked for.
    """

    state: Literal["current", "lacking", "unknown"]
    lacking: tuple[str, ...]
    looked: str | None


class ImageUsers(Shape, frozen=True, kw_only=True):
    """The nodes of a cluster that were made from an image."""

    cluster: str
    nodes: tuple[str, ...]


class ListedImage(Shape, frozen=True, kw_only=True):
    """An image that gpuprov made.

    Attributes:
        role: What it is for; empty if it does not say.
        packages: Debian packages that were ordered besides those of the role.
        users: Nodes of this host that were made from it.
    """

    name: str
    engine: Engine
    size_bytes: Size | None
    created: str
    labels: Mapping[str, str]
    security: ImageSecurity
    role: str = ""
    packages: tuple[str, ...] = ()
    users: tuple[ImageUsers, ...] = ()


class UnfinishedImage(Shape, frozen=True, kw_only=True):
    """A node in which an image is being made, or was when its build was killed."""

    name: str
    engine: Engine
    status: NodeStatus


class ImageCache(Shape, frozen=True, kw_only=True):
    """What images are built from: when each base was built and each set of wheels fetched."""

    folder: str
    bases: tuple[str, ...]
    wheels: tuple[str, ...]


class Images(Document, frozen=True, kw_only=True, tag="gpuprov.images/v1"):
    """The document of `gpuprov image list --json`: the node images that gpuprov made.

    Attributes:
        host: Name of the host.
    """

    host: str
    images: tuple[ListedImage, ...]
    unfinished: tuple[UnfinishedImage, ...]
    cache: ImageCache
