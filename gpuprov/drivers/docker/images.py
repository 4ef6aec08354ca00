"""Images in Docker: imported root file systems, published nodes, and the images that changed containers stand on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, NotOurs
from gpuprov.core.excerpt import excerpt, few_lines
from gpuprov.drivers.base import LABEL_SELF
from gpuprov.drivers.docker import documents
from gpuprov.drivers.docker.api import Conflict, NotFound
from gpuprov.drivers.docker.commits import commit
from gpuprov.drivers.label_text import read_texts
from gpuprov.shapes.engine import ImageState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.drivers.docker.api import DockerApi

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)


def list_images(api: DockerApi) -> list[ImageState]:
    """The node images, oldest first."""
    found = api.get("/images/json", filters={"reference": [documents.IMAGES]})
    parsed = (documents.parse_image(document) for document in found)
    return sorted((image for image in parsed if image), key=lambda image: image.created)


def find_image(api: DockerApi, name: str) -> ImageState | None:
    """A node image by name, or an image that the engine has, by its name there."""
    for image in list_images(api):
        if name in (image.name, image.id, documents.image_name(image.id).removeprefix(f"{documents.IMAGES}-")):
            return image
    document = _inspect(api, name)
    return ImageState(id=document["Id"], name=name, size_bytes=document.get("Size")) if document else None


def _inspect(api: DockerApi, name: str) -> documents.Document | None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]*", name, re.ASCII):
        return None
    with contextlib.suppress(NotFound):
        found: documents.Document = api.get(f"/images/{urllib.parse.quote(name, safe='/:@')}/json")
        return found
    return None


def import_rootfs(api: DockerApi, name: str, rootfs: str, labels: Mapping[str, str]) -> str:
    """Make an image of a tar, once per name."""
    tag = f"{documents.ROOTFS}:{_tag(name)}"
    found = _inspect(api, tag)
    if found:
        _require_ours(found, tag)
        return tag
    text = urllib.parse.quote(json.dumps(dict(labels), sort_keys=True), safe="")
    change = f"LABEL {documents.IMAGE_LABEL}={text}"
    try:
        Path(rootfs).open("rb").close()  # what the SDK cannot open it takes for an address to download from
    except OSError as exc:
        raise EngineError(f"cannot read {rootfs}", evidence=str(exc), fix="gpuprov image build") from exc
    with api.translated("import", tag):
        answer = api.client.import_image(rootfs, repository=documents.ROOTFS, tag=_tag(name), changes=[change])
    failed = find_failure(answer)
    if failed or _inspect(api, tag) is None:
        raise EngineError(
            f"docker could not import {rootfs}",
            evidence=failed or f"it has no image {tag}, and reported only: {excerpt(answer) or 'nothing'}",
            fix="remove the file and build it again: gpuprov image build --engine docker",
        )
    return tag


def find_failure(reports: str) -> str:
    """Why an image was not made, from Docker's reports, one in a line; empty where they name no reason."""
    for line in reports.splitlines():
        try:
            report = json.loads(line)
        except ValueError:
            return f"its report breaks off: {excerpt(line)}"
        if isinstance(report, dict) and ("error" in report or "errorDetail" in report):
            detail = report.get("errorDetail")
            words = report.get("error") or (detail.get("message") if isinstance(detail, dict) else detail)
            return few_lines(str(words or line))
    return ""


def _tag(name: str) -> str:
    if _TAG.fullmatch(name):
        return name
    return hashlib.sha256(name.encode()).hexdigest()


def name_holder(api: DockerApi, name: str) -> str | None:
    """The foreign image that has the tag of an image to be, in words."""
    tag = documents.image_tag(name)
    found = _inspect(api, tag)
    return f"the image {tag}" if found and not _is_ours(found) else None


def _is_ours(document: documents.Document) -> bool:
    return documents.IMAGE_LABEL in ((document.get("Config") or {}).get("Labels") or {})


def _require_ours(document: documents.Document, tag: str) -> None:
    if not _is_ours(document):
        raise NotOurs(
            f"the image {tag} was not created by gpuprov and is not changed",
            evidence=f"it has no label {documents.IMAGE_LABEL}",
            fix=f"rename it with docker tag, or remove it yourself with: docker image rm {tag}",
        )


def publish(api: DockerApi, container: str, name: str, labels: Mapping[str, str], *, hide: Iterable[str]) -> ImageState:
    """Make a node image of a builder; with its tag it is an image, and it gets both in one step."""
    tag = documents.image_tag(name)
    if not _TAG.fullmatch(tag.partition(":")[2]):
        raise EngineError(
            f"{name!r} is not a valid image name",
            evidence="docker allows letters, digits, '.', '_' and '-'",
            fix="rename",
        )
    found = _inspect(api, tag)
    if found:
        _require_ours(found, tag)
        raise EngineError(
            f"the image {documents.image_name(tag)} already exists",
            evidence=tag,
            fix=f"gpuprov image rm {documents.image_name(tag)} --engine docker",
        )
    text = json.dumps({**labels, LABEL_SELF: documents.image_name(tag)}, sort_keys=True)
    commit(api, container, tag, hide=hide, labels={documents.IMAGE_LABEL: text})
    published = find_image(api, name)
    if published is None:
        raise EngineError(
            f"the image {tag} was committed but does not exist",
            evidence=f"docker has no {tag}",
            fix="run the same command again",
        )
    return published


def delete_image(api: DockerApi, tag: str) -> None:
    """Remove an image of ours; while containers stand on it, only its name goes."""
    document = _inspect(api, tag)
    if document is None:
        return
    _require_ours(document, tag)
    try:
        delete_tag(api, tag)
    except Conflict:
        # Under a second name the first can be taken away; the image goes with the last node that stands on it.
        api.post(f"/images/{tag}/tag", repo=documents.KEPT, tag=_kept_tag(document["Id"]))
        delete_tag(api, tag)


def delete_tag(api: DockerApi, tag: str) -> None:
    """Remove a tag, and the image with its last one; no change if it is absent."""
    with contextlib.suppress(NotFound):
        api.delete(f"/images/{tag}")


def release(api: DockerApi, container: Mapping[str, str]) -> None:
    """Remove what a removed container stood on, if no other does and no list shows it."""
    kept = f"{documents.KEPT}:{_kept_tag(container['ImageID'])}"
    tags = [container["Image"]] if container["Image"].startswith(f"{documents.KEPT}:") else []
    if container["Image"].startswith("sha256:") or ":" not in container["Image"]:
        tags.append(kept)
    for tag in tags:
        with contextlib.suppress(Conflict):
            delete_tag(api, tag)


def _kept_tag(identity: str) -> str:
    return identity.removeprefix("sha256:")[:32]


# --- snapshots


def snapshot_tag(uid: str, snapshot: str) -> str:
    """The tag of a node's snapshot, whatever its name holds."""
    return f"{documents.SNAPSHOTS}:{uid}-{hashlib.sha256(snapshot.encode()).hexdigest()[:32]}"


def list_snapshots(api: DockerApi) -> dict[str, tuple[str, ...]]:
    """Names of the snapshots of each node's uid, oldest first."""
    found: dict[str, list[str]] = {}
    documents_ = api.get("/images/json", filters={"reference": [documents.SNAPSHOTS]})
    for document in sorted(documents_, key=lambda image: int(image["Created"])):
        text = (document.get("Labels") or {}).get(documents.SNAPSHOT_LABEL)
        label = read_texts(text)
        if {"uid", "name"} <= set(label):
            found.setdefault(label["uid"], []).append(label["name"])
    return {uid: tuple(names) for uid, names in found.items()}


def keep_snapshot(api: DockerApi, container: str, uid: str, snapshot: str, *, hide: Iterable[str]) -> None:
    """Keep a container's file system under a name of the node's own."""
    if not snapshot or "/" in snapshot:
        raise EngineError(
            f"{snapshot!r} is not a valid snapshot name",
            evidence="it is empty or contains a slash",
            fix="choose another name",
        )
    tag = snapshot_tag(uid, snapshot)
    if _inspect(api, tag):
        raise EngineError(
            f"the snapshot {snapshot} already exists", evidence=f"docker has {tag}", fix="choose another name"
        )
    label = json.dumps({"uid": uid, "name": snapshot})
    commit(api, container, tag, hide=hide, labels={documents.SNAPSHOT_LABEL: label})
