"""`host prepare` and `host undo`: this machine made ready to hold nodes by the role `host`, and that taken back."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gpuprov.cluster.image_parts import ImageParts
from gpuprov.cluster.images import node_recipe
from gpuprov.cluster.refresh_cache import refresh_cache
from gpuprov.core.errors import GpuprovError, HostNotReady
from gpuprov.core.names import BRIDGES
from gpuprov.core.outcome import Outcome
from gpuprov.core.reporter import TimingReporter
from gpuprov.core.side_by_side import beside
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.core.units import GIB
from gpuprov.drivers.registry import REGISTRY, prepare_command
from gpuprov.drivers.sockets import DIR_VARIABLES, socket_places
from gpuprov.lifecycle.restore_host import restore_networks
from gpuprov.machine.apt_progress import AptProgress
from gpuprov.machine.cdi_file import renew_cdi_file
from gpuprov.machine.earlier_packages import find_added, note_earlier
from gpuprov.machine.installed_packages import find_installed
from gpuprov.provision.playbook import Play, RoleUse, TaskFailed, run_play
from gpuprov.provision.rootfs import can_build, default_cache
from gpuprov.provision.targets import Target
from gpuprov.roles.registry import role_of
from gpuprov.shapes.choices import DEFAULT_ENGINE
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host
    from gpuprov.provision.playbook import PlayResult
    from gpuprov.provision.recipe import Recipe
    from gpuprov.provision.role_recipe import Init
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.engine import EngineFacts

    RunPlay = Callable[..., PlayResult]

PRECONDITION = "Require "  # how the role's tasks begin that only refuse
FIX = "\nfix: "
GOOD_POOL_GIB = 30
LOOK_S = 0.5
APT_LOOK_S = 1.0
START_S = 60.0  # for an engine to respond that was just started


@dataclass(frozen=True, kw_only=True)
class HostOrder:
    """What to make of this machine.

    Attributes:
        engine: Which engine to prepare it for; one of those that can be installed.
        roles_path: The folder with the roles.
        pool_size_gib: Size of the storage pool to make where there is none with copy on write; None for one that fits
            the room there is, where there is no pool at all.
        bridges: The nodes' bridges, to be let through Docker's FORWARD chain; `+` at the end stands for anything.
        variables: More variables of the role, as its argument_specs describe them.
        first_image: Meanwhile make the parts of the image of a first cluster, where no image was built before.
        program: Path of the gpuprov that systemd is to start at boot; empty for none.
        refresh: Make anew what images are built from.
    """

    roles_path: Path
    engine: Engine = DEFAULT_ENGINE
    pool_size_gib: int | None = None
    bridges: tuple[str, ...] = (f"{BRIDGES}+",)
    variables: tuple[tuple[str, object], ...] = ()
    first_image: bool = False
    program: str = ""
    refresh: bool = False


def variables_for(engine: Engine, environment: Mapping[str, str]) -> tuple[tuple[str, object], ...]:
    """The role's variables by which the engine is meant that LXD_DIR or INCUS_DIR name, not the distribution's."""
    folder = str(socket_places(engine, environment)[0].parent)
    if engine not in DIR_VARIABLES or folder in [str(place.parent) for place in socket_places(engine, {})]:
        return ()
    return (("host_lxd_dir", folder), ("host_log_dir", f"{folder}/logs"), ("host_run_dir", folder))


def own_program(argv: Sequence[str] = sys.argv) -> str:
    """Path of the gpuprov that runs, as it was started: an upgrade exchanges what stands behind it; else empty."""
    program = Path(argv[0]).absolute()
    return str(program) if program.name == "gpuprov" and program.is_file() else ""


def prepare_host(order: HostOrder, host: Host, *, reporter: Reporter, run: RunPlay = run_play) -> Outcome:
    """Install and start the engine, make what nodes need, and isolate its clusters; a second run changes nothing.

    Raises:
        HostNotReady: Not root, too little room, or a distribution that is not known.
        PlaybookError: A step failed.
    """
    parts = _first_parts(order, host, reporter)
    with contextlib.ExitStack() as stack:
        if parts is not None:
            made = stack.enter_context(beside(partial(_make_parts, parts)))
            order = replace(order, variables=(*order.variables, ("host_image_tools_first", True)))
        _require_root("prepare", order.engine, os.geteuid(), sys.argv[0])
        note_earlier(host.root, REGISTRY[order.engine].packages)
        outcome = _apply(order, "main", host, verb="prepare", reporter=reporter, run=run)
        driver = host.open(order.engine)
        note = describe_storage(driver.facts(), changed=not outcome.unchanged)
        if note:
            reporter.note(note)
        with host.lock(reporter):
            restored = restore_networks(driver, host, reporter=reporter)
        recorded = _prepare_record(host, reporter) if "jobs" in driver.capabilities else ()
        if order.program and not outcome.unchanged and not (host.root / "run/systemd/system").is_dir():
            reporter.note(f"there is no systemd: after each reboot, run: {prepare_command(order.engine)}")
        if parts is not None:
            _await_parts(made, reporter)
    refreshed = refresh_cache(_first_recipe(order, host), host, reporter=reporter) if order.refresh else ()
    renewed = renew_cdi_file(host, reporter=reporter)
    return replace(outcome, changed=(*outcome.changed, *restored, *recorded, *renewed, *refreshed))


def _prepare_record(host: Host, reporter: Reporter) -> tuple[str, ...]:
    """The record of `gpuprov run`, to which all add who may use the engine; a line where something was made."""
    try:
        return (f"made {host.run_records.place}",) if host.run_records.prepare() else ()
    except OSError as error:
        reporter.warn(f"GPU hours of `gpuprov run` cannot be put on record: {error}")
        return ()


def _first_parts(order: HostOrder, host: Host, reporter: Reporter) -> ImageParts | None:
    """Those of the image of a cluster that nobody has described; None where they could have been made before."""
    if not order.first_image or order.refresh or os.geteuid() != 0 or can_build():
        return None
    try:
        return ImageParts(_first_recipe(order, host), default_cache(), reporter)
    except GpuprovError:  # `cluster up` tells it
        return None


def _first_recipe(order: HostOrder, host: Host) -> Recipe:
    """Of the image of a cluster that nobody has described."""
    spec = ClusterSpec(engine=order.engine)
    init: Init = "systemd" if REGISTRY[order.engine].systemd else "runit"
    return node_recipe(spec, role_of(spec.nodes.role).recipe_of(spec), host.gpus(spec.gpus.mode), init=init)


def _make_parts(parts: ImageParts, stop: threading.Event) -> None:
    parts.early_wheels(stop)
    while not can_build():
        if stop.wait(LOOK_S):
            return
    parts.base(stop)


def _await_parts(made: Callable[[], None], reporter: Reporter) -> None:
    """Wait for the parts; the host is ready without them."""
    try:
        with reporter.phase("base of the first image"):
            made()
    except GpuprovError as error:
        reporter.note(f"{error.what}; `cluster up` tries again")


def describe_storage(engine: EngineFacts, *, changed: bool) -> str:
    """What nodes are put on, for who has just prepared it; empty where nothing is to be said."""
    if not engine.copy_on_write and engine.cluster:
        return f"{engine.storage} is used: every node is a full copy; no pool is created in a cluster of {engine.name}"
    if not engine.copy_on_write:
        return (
            f"{engine.storage} is used: every node is a full copy; in a btrfs pool nodes would be clones, created in a "
            f"fraction of the time: {prepare_command(engine.name)} --pool-size {GOOD_POOL_GIB}"
        )
    if not changed or engine.free_bytes is None:
        return ""
    return f"nodes are put on {engine.storage}, {engine.free_bytes / GIB:.1f} GiB free"


def undo_host(order: HostOrder, host: Host, *, reporter: Reporter, run: RunPlay = run_play) -> Outcome:
    """Remove what `prepare_host` made, and nothing that it found; packages and the cache of images stay.

    Raises:
        HostNotReady: Not root, or nodes or images of gpuprov are still there.
        PlaybookError: A step failed.
    """
    outcome = _apply(order, "undo", host, verb="undo", reporter=reporter, run=run)
    packages = describe_packages(order.engine, host)
    if packages:
        reporter.note(packages)
    cache = default_cache()
    if cache.is_dir():
        reporter.note(f"bases and wheels of images are kept, for all engines; to remove them: rm -r {cache}")
    return outcome


def describe_packages(engine: Engine, host: Host) -> str:
    """What to remove of the engine's packages, which are kept: those that came with gpuprov and serve nothing else."""
    packages = REGISTRY[engine].packages
    others = [door.name for door in host.engines if door.name != engine and door.installed()]
    needed = {name for other in others for name in REGISTRY[cast("Engine", other)].packages}
    added = find_added(host.root, packages, needed=needed)
    left = [name for name in find_installed(host.root, packages) if name not in added]
    words = [f"to remove them: apt-get remove {' '.join(added)} && apt-get autoremove"] if added else []
    if left:
        words.append(f"{', '.join(left)}: may have been there before, or another engine needs them")
    return f"packages are kept; {'; '.join(words)}" if words else ""


def _apply(order: HostOrder, tasks: str, host: Host, *, verb: str, reporter: Reporter, run: RunPlay) -> Outcome:
    _require_root(verb, order.engine, os.geteuid(), sys.argv[0])
    variables = {
        "host_engine": order.engine,
        "host_pool_size_gib": order.pool_size_gib or 0,
        "host_bridges": list(order.bridges),
        "host_start_timeout_s": round(scaled_limit_s(START_S)),
        "host_restore_program": order.program,
        **dict(order.variables),
    }
    play = Play(
        roles=(RoleUse(name="host", tasks=tasks, variables=variables),),
        targets=(Target(),),
        roles_path=order.roles_path,
    )
    watch = TimingReporter(reporter)
    try:
        tell = partial(_tell_apt, AptProgress(host.root), watch)
        with host.image_lock(reporter), host.lock(reporter), watch.phase(f"host {verb}"), beside(tell):
            result = run(play, reporter=watch)
        with host.lock(reporter):
            pass  # root opens it to the group of an engine that has been installed only now
    except TaskFailed as failed:
        raise translate_failure(failed) from failed
    return Outcome(changed=tuple(line.removeprefix("host: ") for line in result.changed), phases=watch.phases)


def _tell_apt(progress: AptProgress, reporter: Reporter, stop: threading.Event) -> None:
    """Tell how far apt is until told to stop: the play itself says nothing before a task has ended."""
    while not stop.wait(APT_LOOK_S):
        words = progress.look()
        if words:
            reporter.node("apt", words)


def translate_failure(failed: TaskFailed) -> HostNotReady | TaskFailed:
    """A precondition of the role that does not hold is a fact about the host and not a fault of the play."""
    if not failed.event.task.startswith(PRECONDITION):
        return failed
    shutil.rmtree(failed.folder, ignore_errors=True)  # its log says no more than this error
    evidence, _, fix = failed.event.message.partition(FIX)
    return HostNotReady(
        f"requirement not met: {failed.event.task.removeprefix(PRECONDITION).removeprefix('that ')}",
        evidence=evidence,
        fix=fix or failed.fix,
    )


def _require_root(verb: str, engine: Engine, uid: int, program: str) -> None:
    if uid != 0:
        # sudo's path is not the user's: name the program by its place
        raise HostNotReady(
            f"`host {verb}` needs root",
            evidence=f"this process runs as uid {uid}",
            fix=f"sudo {Path(program).resolve()} host {verb} --engine {engine}",
        )
