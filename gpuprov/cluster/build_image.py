"""The node image: one base, roles applied once in a builder node, published under the fingerprint of its recipe."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov import __version__
from gpuprov.cluster import services
from gpuprov.cluster import transport as node_transport
from gpuprov.cluster.built_images import list_alike, new_name
from gpuprov.cluster.image_parts import ImageParts
from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, NotOurs, PlaybookError, TimedOut
from gpuprov.core.exhaustion import NO_ROOM
from gpuprov.core.interrupts import to_its_end
from gpuprov.core.rollback import AGAIN, Rollback
from gpuprov.core.side_by_side import beside
from gpuprov.core.silence_limit import more_time, scaled_limit_s
from gpuprov.core.units import GIB
from gpuprov.core.waiting import Wait
from gpuprov.drivers.base import (
    LABEL_CLUSTER,
    LABEL_FINGERPRINT,
    LABEL_IMAGE,
    LABEL_PACKAGES,
    LABEL_PEOPLE,
    LABEL_RECIPE,
    LABEL_ROLE,
    LABEL_VERSION,
    ROLE_BUILDER,
    File,
    NodeRequest,
)
from gpuprov.machine.facts import free_bytes, nearest_folder
from gpuprov.provision.kept_bases import import_name
from gpuprov.provision.package_versions import ASK_VERSIONS, dump_versions
from gpuprov.provision.payload import payload_stamp
from gpuprov.provision.playbook import Play, PlayResult, RoleUse, TaskFailed, run_play
from gpuprov.provision.recipe import source_files
from gpuprov.provision.recipe_record import dump_recipe_record, record_recipe
from gpuprov.provision.rootfs import default_cache, ensure_rootfs
from gpuprov.provision.targets import Target
from gpuprov.provision.user_roles import copied_roles
from gpuprov.provision.wheels import ensure_wheels
from gpuprov.spec.suites import python_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.provision.recipe import Recipe
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.node import Attachment
    from gpuprov.shapes.records import RecipeRecord


OWNER = "(images)"  # no cluster can have this name: an image belongs to all of them
PAYLOAD = "/var/cache/gpuprov"
IMAGE_FILE = "/etc/gpuwork/image"  # gpuwork says of each run on which image it ran
ENGINE_ROOM_BYTES = 4 * GIB  # a base, the builder, and room for a few nodes' changes
CACHE_ROOM_BYTES = 2 * GIB
BOOT_TIMEOUT_S = 60.0  # without progress
SLOW_ROLE = "cuda"  # installs beside the others


@dataclass(frozen=True, kw_only=True)
class BuildSite:
    """Where an image is built.

    Attributes:
        attachments: The builder's networks; the package mirror must be reachable through them.
        files: What the builder needs to resolve names: /etc/resolv.conf, /etc/hosts.
        cache: Folder of the host that keeps root file systems and wheels.
    """

    attachments: tuple[Attachment, ...]
    files: tuple[File, ...] = ()
    cache: Path | None = None


@dataclass(frozen=True, kw_only=True)
class BuildTools:
    """What a build uses of the world outside the engine."""

    rootfs: Callable[..., Path] = ensure_rootfs
    wheels: Callable[..., list[Path]] = ensure_wheels
    play: Callable[..., PlayResult] = run_play


FRESH_TOOLS: Final = BuildTools(rootfs=partial(ensure_rootfs, fresh=True), wheels=partial(ensure_wheels, fresh=True))


@dataclass(frozen=True, kw_only=True)
class EnsuredImage:
    """The image, and whether it had to be built."""

    image: ImageState
    built: bool


def find_built(driver: Driver, recipe: Recipe) -> ImageState | None:
    """The newest image of a recipe, if there is one."""
    return next(reversed(list_alike(driver, recipe.fingerprint)), None)


def ensure_image(
    driver: Driver,
    recipe: Recipe,
    *,
    site: BuildSite,
    reporter: Reporter,
    tools: BuildTools | None = None,
    fresh: bool = False,
) -> EnsuredImage:
    """Build the recipe's image unless the engine has it; the caller holds the lock of image builds.

    A build that is killed leaves a builder node and no image; the next one removes it.

    Args:
        recipe: What goes into it.
        site: Where it is built.
        tools: What is used outside the engine.
        fresh: Whether to build another one of new packages, though the engine has one.

    Raises:
        HostNotReady: Too little room, mmdebstrap or the index failed; nothing was made.
        EngineError: The base is unknown, or the engine failed.
        PlaybookError: A role failed; the builder is removed.
    """
    found = find_built(driver, recipe)
    if found is not None and not fresh:
        return EnsuredImage(image=found, built=False)
    cache = site.cache or default_cache()
    with copied_roles(recipe.own_roles, cache) as copies:
        frozen = replace(recipe, own_roles=copies)
        record = record_recipe(frozen, frozen.hash_contents())  # once: what is built is what was there when it began
        name = new_name(record.fingerprint, taken=found is not None)
        _refuse_taken_names(driver, name)
        _refuse_without_room(driver, cache)
        with told_by_folder(recipe.own_roles, copies):
            using = tools or (FRESH_TOOLS if fresh else BuildTools())
            parts = ImageParts(frozen, cache, reporter, rootfs=using.rootfs, wheels=using.wheels)
            image = _build(driver, parts, record, name=name, site=site, play=using.play)
    return EnsuredImage(image=image, built=True)


def _build(
    driver: Driver,
    parts: ImageParts,
    record: RecipeRecord,
    *,
    name: str,
    site: BuildSite,
    play: Callable[..., PlayResult],
) -> ImageState:
    recipe, reporter = parts.recipe, parts.reporter
    with beside(parts.early_wheels) as fetched:
        with reporter.phase("base"):
            base = _ensure_base(driver, recipe, parts)
        with Rollback(reporter, left_over=AGAIN) as rollback, _told_where_storage_fills_up(driver):
            rollback.add("the builder node", lambda: driver.delete_node(driver.builder))
            with reporter.phase("builder"):
                to_its_end(partial(_start_builder, driver, base, site))
                python = _ask(driver, "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'")
            with reporter.phase("wheels"):
                early = fetched()
                wheels = early if python == python_of(recipe.base) else parts.wheels(python)
                _push_payload(driver, recipe, wheels, name)
            with reporter.phase("roles"):
                play(_play(driver, recipe), reporter=reporter)
            with reporter.phase("publish"):
                labels = _labels(driver, recipe, record)
                return to_its_end(partial(driver.publish_image, driver.builder, name, labels))


def _refuse_taken_names(driver: Driver, image: str) -> None:
    """Ask before the minute that a build takes whether the builder's name and the image's are free or ours."""
    builder = next((node for node in driver.list_nodes() if node.name == driver.builder and not node.ours), None)
    holder = f"the instance {driver.builder}, {builder.status}" if builder else driver.image_name_holder(image)
    if holder:
        raise NotOurs(
            f"a name that the image build needs is taken: {holder}",
            evidence=f"{driver.name} has it without a gpuprov label",
            fix="rename or remove that object, then run the same command again",
        )


def _refuse_without_room(driver: Driver, cache: Path) -> None:
    free = driver.facts().free_bytes
    if free is not None and free < ENGINE_ROOM_BYTES:
        raise HostNotReady(
            "not enough space in the engine's storage for an image",
            evidence=f"{free / GIB:.1f} GiB free, {ENGINE_ROOM_BYTES / GIB:.0f} GiB needed",
            fix="gpuprov image list  # then remove unused images: gpuprov image rm NAME",
        )
    folder = nearest_folder(cache)
    free = free_bytes(folder)
    if free < CACHE_ROOM_BYTES:
        raise HostNotReady(
            "not enough disk space to build an image",
            evidence=f"{folder}: {free / GIB:.1f} GiB free, {CACHE_ROOM_BYTES / GIB:.0f} GiB needed",
            fix=f"df -h {folder}  # free some space there",
        )


@contextmanager
def _told_where_storage_fills_up(driver: Driver) -> Iterator[None]:
    """A full disk is the engine's, whoever found it full; to be asked before the builder goes."""
    try:
        yield
    except (EngineError, PlaybookError) as error:
        if not NO_ROOM.search(error.evidence):
            raise
        raise HostNotReady(
            f"{driver.name}'s storage became full while the image was built",
            evidence=f"{error.what}\n{error.evidence}\n{_describe_storage(driver)}".rstrip(),
            fix="gpuprov image list  # then remove unused images: gpuprov image rm NAME",
        ) from error


def _describe_storage(driver: Driver) -> str:
    with suppress(GpuprovError):
        facts = driver.facts()
        free = f": {facts.free_bytes / GIB:.1f} GiB free" if facts.free_bytes is not None else ""
        return f"{facts.storage}{free}"
    return ""


def _ensure_base(driver: Driver, recipe: Recipe, parts: ImageParts) -> str:
    if recipe.engine_image is None:
        rootfs = parts.base()
        with _told_where_storage_fills_up(driver):
            return driver.import_rootfs(import_name(rootfs), str(rootfs), {LABEL_VERSION: __version__})
    image = driver.find_image(recipe.engine_image)
    if image is None:
        raise EngineError(
            f"{driver.name} has no image {recipe.engine_image!r} to build from",
            evidence=f"the base in the spec is {recipe.base!r}",
            fix="import an image under that name, or use a suite as the base, such as bookworm",
        )
    return image.id


def _start_builder(driver: Driver, base: str, site: BuildSite) -> None:
    driver.delete_node(driver.builder)
    labels = {LABEL_CLUSTER: OWNER, LABEL_ROLE: ROLE_BUILDER, LABEL_VERSION: __version__}
    driver.create_node(
        NodeRequest(name=driver.builder, image=base, labels=labels, attachments=site.attachments, files=site.files)
    )
    driver.start_node(driver.builder)
    wait = Wait(
        what="the builder node to boot",
        timeout_s=scaled_limit_s(BOOT_TIMEOUT_S),
        fix=f"use a base that boots, such as bookworm; check the host's space and load: gpuprov doctor; {more_time()}",
    )
    undone = partial(services.undone_of_boot, driver, driver.builder)
    try:
        wait.until(partial(services.boot_state, driver, driver.builder), services.is_booted, undone=undone)
    except TimedOut as error:
        evidence = f"{error.evidence}\n{services.describe_boot(driver, driver.builder)}".rstrip()
        raise TimedOut(error.what, evidence=evidence, fix=error.fix) from error


def _push_payload(driver: Driver, recipe: Recipe, wheels: list[Path], name: str) -> None:
    for wheel in wheels:  # one at a time: they are large
        driver.push(driver.builder, [File(path=f"{PAYLOAD}/wheels/{wheel.name}", content=wheel.read_bytes())])
    kernels = ("smoke_kernels", recipe.smoke_kernels)
    brought = ((folder.name, folder) for folder in recipe.brought)
    driver.push(
        driver.builder,
        [
            File(path=f"{PAYLOAD}/{name}/{path.relative_to(folder)}", content=path.read_bytes())
            for name, folder in (kernels, *brought)
            for path in source_files(folder)
        ],
    )
    if recipe.brought:
        driver.push(driver.builder, [File(path=IMAGE_FILE, content=f"{name}\n".encode())])


def _play(driver: Driver, recipe: Recipe) -> Play:
    variables: dict[str, dict[str, object]] = {
        "base": {"base_init": recipe.init, "base_extra_packages": list(recipe.packages)},
        "cuda": {
            "cuda_requirements": list(recipe.requirements),
            "cuda_stamp": payload_stamp(recipe.requirements, [recipe.smoke_kernels]),
        },
        **{role: dict(given) for role, given in recipe.role.variables(recipe.init).items()},
    }
    uses = {role: RoleUse(name=role, variables=variables.get(role, {})) for role in recipe.roles}
    slow = uses.pop(SLOW_ROLE)
    own = [RoleUse(name=folder.name) for folder in recipe.own_roles]
    return Play(
        roles=(replace(slow, tasks="begin"), *uses.values(), slow, *own, RoleUse(name="base", tasks="clean")),
        targets=(Target(name=driver.builder, engine=driver.name),),
        roles_path=recipe.roles_path,
        transport=node_transport.ENTRY,
        gather_facts=bool(own),  # users' roles look at them; gpuprov's do not
        more_roles_path=recipe.own_roles[0].parent if own else None,
    )


def _labels(driver: Driver, recipe: Recipe, record: RecipeRecord) -> dict[str, str]:
    return {
        LABEL_FINGERPRINT: record.fingerprint,
        LABEL_RECIPE: dump_recipe_record(record),
        LABEL_IMAGE: recipe.base,
        LABEL_VERSION: __version__,
        LABEL_PEOPLE: "files",
        LABEL_PACKAGES: dump_versions(_ask(driver, ASK_VERSIONS)),
        **{label: _ask(driver, line) for label, line in recipe.role.labels.items()},
    }


def _ask(driver: Driver, line: str) -> str:
    result = driver.run(driver.builder, ["/bin/sh", "-c", line])
    if result.exit_code != 0 or not result.stdout.strip():
        raise EngineError(
            "the builder node lacks something that an image needs",
            evidence=f"{line}: exit status {result.exit_code}, {result.stderr.strip() or 'no output'}",
            fix="use a Debian or Ubuntu image with python3 (in LXD: and systemd) as the base, or a suite",
        )
    return result.stdout.strip()


@contextmanager
def told_by_folder(folders: Sequence[Path], copies: Sequence[Path]) -> Iterator[None]:
    """Name the folder of a role that failed, or that Ansible cannot read, instead of the copy that was applied."""
    try:
        yield
    except PlaybookError as error:
        failed = error.event.role if isinstance(error, TaskFailed) else ""
        for folder, copy in zip(folders, copies, strict=True):
            if failed == folder.name or f"{copy}/" in error.evidence:
                raise _told(error, folder, copy) from error
        raise


def _told(error: PlaybookError, folder: Path, copy: Path) -> PlaybookError:
    how = f"task '{error.event.task}' failed" if isinstance(error, TaskFailed) else "Ansible cannot apply it"
    return PlaybookError(
        f"the role {folder.name} of image.roles failed: {how}",
        evidence=f"role: {folder}\n{error.evidence}".replace(f"{copy}/", f"{folder}/"),
        fix=f"correct the role in {folder}, then run the same command again; the evidence names the complete log",
    )
