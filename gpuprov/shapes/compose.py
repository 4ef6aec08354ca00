"""A file of docker compose, as far as it can be translated to manifests of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from gpuprov.shapes.base import Document, Shape

Words = tuple[str, ...] | str
Port = Annotated[str, Meta(pattern=r"(^|:)[0-9]{1,5}(/(tcp|udp))?$", extra={"allowed": "a port, such as 9993"})]
Number = Annotated[int, Meta(ge=1, le=65535)]
Image = Annotated[str, Meta(min_length=1, extra={"allowed": "the name of an image"})]


class ComposeDeploy(Shape, frozen=True, kw_only=True):
    """How many copies: `global` is one on each node."""

    may_omit = True
    mode: Literal["global", "replicated"] = "replicated"


class ComposeService(Shape, frozen=True, kw_only=True):
    """A service, with the keys that Kubernetes has an equal for.

    Attributes:
        restart: Kubernetes always starts again; a service that is not to be is a Job there.
        runtime: The one that leases GPUs.
        volumes: `FILE:TARGET[:ro]` each.
    """

    may_omit = True
    image: Image
    command: Words | None = None
    entrypoint: Words | None = None
    environment: Mapping[str, str | int | float | bool | None] | tuple[str, ...] = ()
    ports: tuple[Number | Port, ...] = ()
    expose: tuple[Number | Port, ...] = ()
    volumes: tuple[str, ...] = ()
    hostname: str | None = None
    restart: Literal["always", "unless-stopped", "on-failure"] | None = None
    runtime: Literal["gpuprov"] | None = None
    deploy: ComposeDeploy = ComposeDeploy()


class ComposeFile(Shape, frozen=True, kw_only=True):
    """The file; keys that begin with `x-` are left out before."""

    may_omit = True
    name: str | None = None
    version: str | None = None
    services: Mapping[str, ComposeService]


class Manifests(Document, frozen=True, kw_only=True, tag="gpuprov.manifests/v1"):
    """The document of `gpuprov kubernetes manifests --json`.

    Attributes:
        manifests: Objects of Kubernetes, in the order in which they can be applied.
    """

    manifests: tuple[Mapping[str, Any], ...]
