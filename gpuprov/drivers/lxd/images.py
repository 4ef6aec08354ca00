"""Images in LXD: imported root file systems, and stopped instances that nodes are copied from.

A node image is a stopped instance and not an entry of LXD's image store: the first start of a clone from the store
re-maps the owner of every file, a copy of an instance that has run before does not, and publishing it is a rename,
which is atomic and costs nothing (docs/decisions.md has the measurements).
"""

from __future__ import annotations

import io
import json
import platform
import tarfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gpuprov.core.errors import EngineError, NotOurs
from gpuprov.drivers.base import LABEL_SELF
from gpuprov.drivers.lxd import documents, members
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.shapes.engine import ImageState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.drivers.lxd.api import LxdApi

_OWNED = "gpuprov.version"  # an image property that only our import sets


def list_images(api: LxdApi) -> list[ImageState]:
    """The node images, oldest first."""
    parsed = (documents.parse_image_instance(document) for document in members.list_here(api))
    return sorted((image for image in parsed if image), key=lambda image: image.created)


def find_image(api: LxdApi, name: str) -> ImageState | None:
    """A node image by name, or an image of the store by alias or fingerprint."""
    for image in list_images(api):
        if name == image.name or _instance_of(name, api.member) == image.name:
            return image
    try:
        fingerprint = api.get("images", "aliases", name)["target"]
    except NotFound:
        fingerprint = name
    try:
        document = api.get("images", fingerprint)
    except NotFound:
        return None
    return ImageState(id=f"image:{document['fingerprint']}", name=name, size_bytes=document["size"])


def _instance_of(name: str, member: str) -> str:
    """The instance that an image is, or is to be, which is named by that or without what all begin with."""
    return documents.IMAGE_INSTANCE + members.own_name(name.removeprefix(documents.IMAGE_INSTANCE), member)


def import_rootfs(api: LxdApi, name: str, rootfs: str, labels: Mapping[str, str]) -> str:
    """Put a tar into the image store, once per content; labels become image properties in the same step."""
    from requests_toolbelt import MultipartEncoder  # pylxd's own

    for document in api.get("images", recursion=1):
        if document["properties"].get("description") == name and _OWNED in document["properties"]:
            return f"image:{document['fingerprint']}"
    properties = {"description": name, _OWNED: "", **labels}
    metadata = {"architecture": platform.machine(), "creation_date": int(time.time()), "properties": properties}
    try:
        with Path(rootfs).open("rb") as content:
            parts = MultipartEncoder(
                {"metadata": _part("metadata", _metadata_tar(metadata)), "rootfs": _part("rootfs", content)}
            )
            operation = api.upload("images", data=parts, content_type=parts.content_type)
    except OSError as exc:
        raise EngineError(f"cannot read {rootfs}", evidence=str(exc), fix="gpuprov image build") from exc
    return f"image:{operation['metadata']['fingerprint']}"


def _part(name: str, content: IO[bytes]) -> tuple[str, IO[bytes], str]:
    return (name, content, "application/octet-stream")


def _metadata_tar(metadata: Mapping[str, object]) -> io.BytesIO:
    text = json.dumps(metadata).encode()  # JSON is YAML
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("metadata.yaml")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    packed.seek(0)
    return packed


def name_holder(api: LxdApi, name: str) -> str | None:
    """The foreign instance that has the name of an image to be, in words."""
    target = _instance_of(name, api.member)
    try:
        document = api.get("instances", target)
    except NotFound:
        return None
    return None if documents.parse_image_instance(document) else f"the instance {target}, {document['status'].lower()}"


def publish(api: LxdApi, builder: str, name: str, labels: Mapping[str, str]) -> ImageState:
    """Strip a stopped builder of its networks and devices, then rename it: from that moment it is an image."""
    document = api.get("instances", builder)
    kept = {key: value for key, value in document["config"].items() if key.startswith(("volatile.", "image."))}
    owner = {key: value for key, value in document["config"].items() if key.startswith("user.gpuprov.")}
    target = _instance_of(name, api.member)
    known = {**labels, LABEL_SELF: target}
    mark = {documents.KIND: "image", documents.IMAGE_LABELS: json.dumps(known, sort_keys=True)}
    document["config"] = kept | owner | mark | {"boot.autostart": "false"}
    document["devices"] = {"root": document["devices"]["root"]}
    api.send("put", "instances", builder, body=document)
    api.send("post", "instances", builder, body={"name": target})
    published = documents.parse_image_instance(api.get("instances", target))
    if published is None:
        raise EngineError(
            f"the image {target} was renamed from its builder but does not exist",
            evidence=f"{api.command} has no labelled instance {target}",
            fix="run the same command again",
        )
    return published


def delete_instance(api: LxdApi, name: str, remove: Callable[[str], object]) -> None:
    """Remove a node image."""
    try:
        document = api.get("instances", name)
    except NotFound:
        return
    if documents.parse_image_instance(document) is None:
        raise NotOurs(
            f"{name} is not a gpuprov image and is not changed",
            evidence=f"the instance has no {documents.KIND} key",
            fix="list the images: gpuprov image list",
        )
    remove(name)


def delete_imported(api: LxdApi, fingerprint: str) -> None:
    """Remove an imported root file system."""
    try:
        document = api.get("images", fingerprint)
    except NotFound:
        return
    if _OWNED not in document["properties"]:
        raise NotOurs(
            f"the image {fingerprint[:12]} was not imported by gpuprov and is not changed",
            evidence=f"its properties: {document['properties']}",
            fix=f"remove it yourself with: {api.command} image delete {fingerprint[:12]}",
        )
    api.delete("images", fingerprint)
