"""Node images: build, list, rm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import engine_option, gpu_mode_option, open_engine, open_engine_of_image
from gpuprov.cli.options import complete_images, role_option
from gpuprov.cli.settings import DecidingFile
from gpuprov.cli.tables import PIPE, Screen, render_table
from gpuprov.core.errors import UsageError
from gpuprov.core.units import MIB
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ImageSpec, NodesSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.shapes.images import ListedImage


@command(
    click.option(
        "-f",
        "--file",
        type=DecidingFile(path_type=Path),
        help="Spec file of a cluster whose nodes the image is for (docs/spec.md); the other options override it.",
    ),
    click.option("--base", help=f"Suite to build from, or image:NAME.  [default: the file's, or {ImageSpec().base}]"),
    click.option("--package", "packages", multiple=True, metavar="NAME", help="A Debian package to add; repeatable."),
    role_option(f"Purpose of the nodes.  [default: the file's, or {NodesSpec().role}]"),
    gpu_mode_option,
    click.option("--refresh", is_flag=True, help="Build a new image from the newest packages, even if one exists."),
    engine_option,
)
def build(session: Session, /, packages: tuple[str, ...], **options: object) -> Outcome:
    """Build the node image if the engine does not have it."""
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.core.outcome import Outcome
    from gpuprov.lifecycle.standalone_image import build_image
    from gpuprov.roles.registry import load_draft
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.draft import Draft

    file = cast("Path | None", options["file"])
    draft = load_draft(file) if file is not None else Draft(spec=ClusterSpec(), engine_open=True)
    given = {key: said for key, said in options.items() if said is not None}
    image, nodes, gpus = draft.spec.image, draft.spec.nodes, draft.spec.gpus
    image = changed(image, base=cast("str", given.get("base", image.base)), packages=packages or image.packages)
    spec = ClusterSpec(image=image, nodes=NodesSpec(role=cast("str", given.get("role", nodes.role))))
    engine = session.engine or (None if draft.engine_open else draft.spec.engine)
    mode = cast("GpuMode", given.get("gpu_mode", gpus.mode))
    driver = open_engine(session.host, engine)
    found = get_gpus(session.host, mode, reporter=session.reporter)
    fresh = bool(options["refresh"])
    ensured = build_image(driver, spec, session.host, found, reporter=session.reporter, fresh=fresh)
    return Outcome(changed=(f"built image {ensured.image.name}",) if ensured.built else ())


@command(engine_option)
def list_images(session: Session) -> Result:
    """List the node images on all engines: what they are for, who uses them, and which lack security updates."""
    import time

    from gpuprov.lifecycle.list_images import look_at_images

    seen = look_at_images(session.host, session.engine or "", reporter=session.reporter)
    now = time.time()
    for note in seen.notes(now):
        session.reporter.note(note)
    rows = [_cells(image, seen.versions[image.engine, image.name], now) for image in seen.document.images]
    rows += [
        (name, engine, None, None, "unfinished", version, *[None] * 5) for name, engine, version in seen.unfinished
    ]
    return Result(document=seen.document, text=render_images(rows, screen=session.screen))


_PIPED = ("IMAGE", "ENGINE", "BASE", "SIZE", "CREATED", "GPUPROV", "SECURITY", "ROLE", "AGE", "PACKAGES", "USERS")
_SHOWN = ("IMAGE", "ENGINE", "ROLE", "SIZE", "AGE", "USERS", "PACKAGES", "SECURITY", "BASE", "CREATED", "GPUPROV")


def render_images(rows: Sequence[Sequence[object]], *, screen: Screen = PIPE) -> str:
    """A line for each image; at a terminal, what helps to choose comes first."""
    if screen.columns is None:
        return render_table(_PIPED, rows)
    places = [_PIPED.index(header) for header in _SHOWN]
    ordered = [[row[place] for place in places] for row in rows]
    return render_table(_SHOWN, ordered, screen=screen, spare=("CREATED", "GPUPROV", "BASE", "SECURITY", "PACKAGES"))


def _cells(image: ListedImage, version: str, now: float) -> tuple[object, ...]:
    from gpuprov.core.names import fold
    from gpuprov.core.units import age_of
    from gpuprov.drivers.base import LABEL_IMAGE

    lacking = len(image.security.lacking)
    return (
        *(image.name, image.engine, image.labels.get(LABEL_IMAGE)),
        f"{image.size_bytes // MIB} MiB" if image.size_bytes else None,
        f"{image.created[:19]}Z" if image.created else None,
        version,
        f"lacks {lacking}" if lacking else image.security.state,
        image.role,
        age_of(image.created, now),
        ", ".join(image.packages),
        ", ".join(f"{user.cluster} {fold(user.nodes)}" for user in image.users),
    )


@command(
    click.argument("names", metavar="[NAMES]...", nargs=-1, shell_complete=complete_images),
    click.option(
        "--unused", is_flag=True, help="Remove all that no node was created from, but the current one of each role."
    ),
    click.option("--yes", is_flag=True, help="Do not ask before --unused removes images."),
    engine_option,
)
def rm(session: Session, names: tuple[str, ...], *, unused: bool, yes: bool) -> Outcome:
    """Remove node images, by name or by the first digits of a fingerprint. Nodes created from them are kept.

    With --unused, it says on a terminal what will be removed and asks. Elsewhere, it needs --yes.
    """
    from gpuprov.core.outcome import Outcome

    if unused == bool(names):
        raise UsageError(
            "--unused stands for the names of images" if unused else "there is no image to remove",
            evidence=f"named: {', '.join(names) or 'none'}",
            fix="gpuprov image rm NAME, or: gpuprov image rm --unused; names: gpuprov image list",
        )
    if unused:
        images = _unused(session, yes=yes)
        return Outcome(changed=tuple(line for name, engine in images for line in _remove(session, name, engine)))
    return Outcome(changed=tuple(line for name in names for line in _remove(session, name, session.engine)))


def _unused(session: Session, *, yes: bool) -> list[tuple[str, str]]:
    """The unused images and their engines, once it is agreed that they go."""
    from gpuprov.cli.agreement import require_agreement
    from gpuprov.lifecycle.unused_images import find_unused

    found = find_unused(session.host, session.engine or "", reporter=session.reporter)
    images = [(name, engine) for engine, names in found.items() for name in names]
    if images and not yes:
        require_agreement(
            session,
            "yes",
            "images that no node was created from would be removed",
            [f"{name} in {engine}" for name, engine in images],
            kept="no image was removed",
            fix="gpuprov image rm --unused --yes",
        )
    return images


def _remove(session: Session, name: str, engine: str | None) -> tuple[str, ...]:
    from gpuprov.cluster.retry_after_wait import act_on_engine
    from gpuprov.lifecycle.standalone_image import remove_image

    def remove(driver: Driver, host: Host) -> Outcome:
        return remove_image(driver, name, host, reporter=session.reporter)

    return act_on_engine(session.host, lambda: open_engine_of_image(session, engine, name), remove).changed
