"""`image list`: the node images of a host, what they are for, and who uses them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, cast

from gpuprov.cluster.built_images import describe_builder, find_builder, list_built
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.image_updates import ImageUpdates, update_notes, updates_of
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_IMAGE, LABEL_PACKAGES, LABEL_RECIPE, LABEL_ROLE, LABEL_VERSION
from gpuprov.machine.survey import survey
from gpuprov.provision.cache_age import look_at_cache
from gpuprov.provision.recipe_record import read_recipe_record
from gpuprov.provision.rootfs import default_cache
from gpuprov.roles.registry import role_of_image
from gpuprov.shapes.images import ImageCache, Images, ImageSecurity, ImageUsers, ListedImage, UnfinishedImage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.machine.base import Host
    from gpuprov.provision.cache_age import CacheAge
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.engine import ImageState


@dataclass(frozen=True, kw_only=True)
class SeenImages:
    """The images of a host.

    Attributes:
        document: What there is.
        versions: The gpuprov that made each image, by engine and name.
        unfinished: Name, engine and gpuprov of each node in which an image is being made.
        updates: What the images lack, in their order.
        cache: What images are built from.
    """

    document: Images
    versions: Mapping[tuple[str, str], str]
    unfinished: tuple[tuple[str, str, str], ...]
    updates: Sequence[ImageUpdates]
    cache: CacheAge

    def notes(self, now: float) -> tuple[str, ...]:
        """What to say besides: of builds, of updates and of the cache."""
        builds = tuple(f"{name} in {engine} is {describe_builder(engine)}" for name, engine, _ in self.unfinished)
        return tuple(filter(None, (*builds, *update_notes(self.updates, now), self.cache.describe(now))))


def look_at_images(host: Host, engine: str, *, reporter: Reporter) -> SeenImages:
    """What the engine has, or where none is said, what all have; changes nothing.

    Raises:
        GpuprovError: No engine responds.
    """
    doors = tuple(host.engines)
    if engine:
        answers = {engine: _look(host.open(engine))}
        doors = tuple(door for door in doors if door.name == engine)
    else:
        seen = survey(doors, _look)
        seen.require_answer()
        warn_of_silence(seen.errors, reporter)
        answers = dict(seen.answers)
    unsized = {name for name, (images, _, _) in answers.items() if any(not one.size_bytes for one in images)}
    # apart, for counting takes seconds, and an engine that is slow at it has images all the same
    sizes = survey([door for door in doors if door.name in unsized], _count).answers
    cache = default_cache()
    found = [(name, image, nodes) for name, (images, _, nodes) in answers.items() for image in images]
    updates = [updates_of(image, cache) for _, image, _ in found]
    told = (
        _tell(name, image, lacks, nodes, sizes.get(name, {}))
        for (name, image, nodes), lacks in zip(found, updates, strict=True)
    )
    builders = [(name, builder) for name, (_, builder, _) in answers.items() if builder]
    age = look_at_cache(cache)
    document = Images(
        host=host.name,
        images=tuple(told),
        unfinished=tuple(
            UnfinishedImage(name=one.name, engine=cast("Engine", name), status=one.status) for name, one in builders
        ),
        cache=ImageCache(
            folder=str(age.folder), bases=tuple(map(_when, age.bases)), wheels=tuple(map(_when, age.wheels))
        ),
    )
    return SeenImages(
        document=document,
        versions={(name, image.name): image.labels.get(LABEL_VERSION, "") for name, image, _ in found},
        unfinished=tuple((one.name, name, one.labels.get(LABEL_VERSION, "")) for name, one in builders),
        updates=updates,
        cache=age,
    )


def find_users(image: str, nodes: Iterable[NodeState]) -> tuple[ImageUsers, ...]:
    """The nodes that were made from an image, by cluster."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        if node.ours and node.labels.get(LABEL_IMAGE) == image:
            found.setdefault(node.labels[LABEL_CLUSTER], []).append(node.name)
    return tuple(ImageUsers(cluster=cluster, nodes=tuple(sorted(names))) for cluster, names in sorted(found.items()))


def _look(driver: Driver) -> tuple[list[ImageState], NodeState | None, list[NodeState]]:
    return list_built(driver), find_builder(driver), driver.list_nodes()


def _count(driver: Driver) -> dict[str, int]:
    return {use.name: use.size_bytes for use in driver.usage() if use.kind == "image" and use.size_bytes}


def _tell(
    engine: str, image: ImageState, updates: ImageUpdates, nodes: Sequence[NodeState], sizes: Mapping[str, int]
) -> ListedImage:
    looked = None if updates.looked is None else _when(updates.looked)
    record = read_recipe_record(image.labels.get(LABEL_RECIPE, ""))
    users = find_users(image.name, nodes)
    first = next((node for node in nodes if users and node.name == users[0].nodes[0]), None)
    return ListedImage(
        name=image.name,
        engine=cast("Engine", engine),
        size_bytes=image.size_bytes or sizes.get(image.name),
        created=image.created,
        labels={name: value for name, value in image.labels.items() if name != LABEL_PACKAGES},
        security=ImageSecurity(state=updates.state, lacking=updates.lacking, looked=looked),
        role=first.labels.get(LABEL_ROLE, "") if first else role_of_image(image.labels),
        packages=record.packages if record else (),
        users=users,
    )


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, tz=timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
