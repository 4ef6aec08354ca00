"""A container that asks for GPUs is made: lease them, write them into its config.json, or refuse in words."""

from __future__ import annotations

import gc
import json
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError, HostNotReady, PartDone, TimedOut, UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.group_files import Gates
from gpuprov.core.lock import host_lock
from gpuprov.core.process import describe_owner, is_gone
from gpuprov.core.queue import Queue
from gpuprov.core.reporter import Silent
from gpuprov.core.whole_file import replace_file
from gpuprov.gpu.allocate import Claims, GpusTaken, allocate
from gpuprov.gpu.order import resolve_order
from gpuprov.gpu.tickets import read_waiting
from gpuprov.gpu.waiting_for_gpus import Patience, Turn, when_free
from gpuprov.runtime.docker_files import read_files
from gpuprov.runtime.edit import add_gpus, own_files
from gpuprov.runtime.engines import ask_engines
from gpuprov.runtime.gpus import read_gpus, render_additions, write_simulated
from gpuprov.runtime.records import Record, drop_record, find_orphans, read_records, write_record
from gpuprov.runtime.request import is_marked, read_request
from gpuprov.runtime.rules import EVERYTHING
from gpuprov.runtime.settings import read_settings
from gpuprov.runtime.systemd_rules import is_in_charge, place_by_number
from gpuprov.runtime.targets import make_targets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gpuprov.gpu.allocate import LeaseRequest
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.runtime.engines import Told
    from gpuprov.runtime.request import Asked, Spec
    from gpuprov.runtime.settings import Settings
    from gpuprov.runtime.touched import Plan

REFUSED = 3  # the exit code by which the front knows that it has been said why
_MOST_BYTES = 4 * 2**20  # of config.json: what is larger is refused
_WAYS = "wait for a GPU: -e GPUPROV_WAIT=10m, or share one: -e GPUPROV_SHARING=shared; who holds which: gpuprov gpus"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One `create`.

    Attributes:
        folder: Of the runtime's own files.
        front: The process that becomes runc.
        bundle: Folder of config.json.
        state_root: Where runc keeps the state of its containers.
        log: File for what went wrong; empty for none.
        named: Whether the runtime was asked for by name.
        touch: Whom a policy touches (rules.py); empty where there is none.
    """

    folder: Path
    front: int
    bundle: Path
    state_root: Path
    container: str
    log: str
    named: bool
    touch: str = ""

    @property
    def config(self) -> Path:
        """The file."""
        return self.bundle / "config.json"


def main(arguments: Sequence[str]) -> int:
    """Do what can be done for one container, or for a process that is to enter one.

    Returns:
        0 to go on with runc; REFUSED where it was said why not.
    """
    folder, front, bundle, root, container, log, named, touch, process = arguments
    call = Call(
        folder=Path(folder),
        front=int(front),
        bundle=Path(bundle).absolute(),
        state_root=Path(root).absolute(),
        container=container,
        log=log,
        named=named == "1",
        touch=touch,
    )
    sys.argv = ["gpuprov-runtime", "exec" if process else "create", container[:12]]  # how others read who waits
    try:
        if process:
            from gpuprov.runtime.enter import require_entry

            require_entry(call.folder, Path(process), state=call.state_root / container, touch=call.touch)
        else:
            create(call)
    except GpuprovError as error:
        fix = _WAYS if isinstance(error, (GpusTaken, TimedOut)) else error.fix
        refuse(call.log, "; ".join(part for part in (error.what, error.evidence, fix) if part))
        return REFUSED
    except Exception as error:  # noqa: BLE001 - whatever it is, the engine's client has to read it
        refuse(call.log, f"unexpected {type(error).__name__}: {error}; look: gpuprov gate check")
        return REFUSED
    return 0


def refuse(log: str, why: str) -> None:
    """Say it where engines read it: a line of JSON in runc's log, and on stderr."""
    text = "gpuprov: " + " ".join(why.split())
    line = json.dumps({"level": "error", "msg": text, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
    if log:
        with suppress(OSError), Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    sys.stderr.write(f"{text}\n")


def create(call: Call) -> None:
    """Lease GPUs to the container, follow the policy, and write both into its config.json.

    Nothing if it asks for no GPUs, and no policy touches it.

    Raises:
        GpuprovError: It cannot have them, or the policy refuses it.
    """
    if call.container.startswith("."):
        raise HostNotReady("this id is not possible here", evidence=call.container, fix="use one without the dot")
    found = read_spec(call.config)
    asked = read_request(found, named=call.named)
    is_touched = call.touch == EVERYTHING or (bool(call.touch) and (asked is not None or is_marked(found)))
    if asked is None and not is_touched:
        return
    settings = read_settings(call.folder)
    plan = _plan(call, found, settings) if is_touched else None
    if asked is None and (plan is None or plan.is_done(found)):
        return
    others = Others(settings, container=call.container, state=str(call.state_root / call.container))
    docker = others.look_at_docker()
    for error in docker.silent.values():
        raise error  # it may be a node, whose maker holds the lock
    if call.container in docker.nodes:
        return  # it has its GPUs, and who makes it may hold the lock
    spec = found
    if plan is not None:
        spec = plan.carry_out(_rootfs(call, found))
    limit = plan.rules.gpus_per_project if plan else None
    if (asked is None or not _lease(call, spec, asked, settings, others, limit)) and spec != found:
        _write(call, spec)
    if plan is not None and plan.rules.remove and engine_of(found, call.state_root) == "docker":
        from gpuprov.runtime.removal import note_removal

        note_removal(call.container, state=str(call.state_root / call.container))


def _plan(call: Call, found: Spec, settings: Settings) -> Plan:
    from gpuprov.runtime.touched import plan_start  # which takes time to load, and few containers need

    return plan_start(
        found, folder=call.folder, container=call.container, data_root=settings.data_root, bundle=call.bundle
    )


def _lease(call: Call, spec: Spec, asked: Asked, settings: Settings, others: Others, limit: int | None) -> bool:
    """Lease GPUs and write them into config.json; tells whether there was anything to lease."""
    host = read_gpus(settings)
    request = resolve_order(
        asked, asked.environment, host, asked.default, node=str(spec.get("hostname") or call.container)
    )
    if not request.size:
        return False
    owner = describe_owner(call.front)

    def choose(turn: Turn) -> tuple[LeaseRequest, tuple[Gpu, ...]]:
        if is_gone(owner):
            raise PartDone("the engine has ended the runtime", evidence=owner, fix="start the container again")
        claims = turn.claims()
        named = replace(request, node=others.names.get(call.container, request.node))
        (units,) = allocate(host, (), [named], claims=claims).values()
        if limit is not None:
            others.require_room(limit, [unit.uuid for unit in units])
        return named, units

    def attempt(turn: Turn) -> None:
        with host_lock(reporter, gates=Gates()):
            for orphan in find_orphans():
                drop_record(orphan)
            named, units = choose(turn)
            others.require_own_id()
            _give(call, spec, host, named, units, owner)
        turn.end()

    reporter = Silent()
    turn = Turn(neighbours=others, engine="docker")
    when_free(_patience(asked), turn, look=choose, attempt=attempt, reporter=reporter)
    return True


def _patience(asked: Asked) -> Patience:
    if asked.wait_s:
        gc.enable()  # which start.py has switched off
    return Patience(wait_s=asked.wait_s)


def read_spec(config: Path) -> Spec:
    """A container's config.json.

    Raises:
        HostNotReady: It is too large, or no such file.
    """
    why = f"it is larger than {_MOST_BYTES // 2**20} MiB"
    try:
        with config.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) <= _MOST_BYTES:
            spec = json.loads(content)
            if isinstance(spec, dict):
                return spec
            why = "it is no object"
    except (OSError, ValueError, RecursionError) as error:
        why = str(error)
    raise HostNotReady(
        "the container's config.json cannot be used",
        evidence=f"{config}: {why}",
        fix="start the container with fewer variables and mounts",
    )


class Others:
    """The engines of this machine, other containers, and the queue of those who wait.

    Attributes:
        names: Of Docker's containers, by id, as last answered.
    """

    def __init__(self, settings: Settings, *, container: str, state: str = "") -> None:
        self.queue = Queue(Gates())
        self.names: Mapping[str, str] = {}
        self._projects: Mapping[str, str] = {}
        self._records: tuple[Record, ...] = ()
        self._settings = settings
        self._container = container
        self._state = state
        self._is_starting = False

    def look_at_docker(self) -> Told:
        """What this runtime's dockerd alone says, or its files while it starts."""
        told = ask_engines(self._settings.own)
        self._is_starting = bool(told.silent)
        return self._from_files() or told

    def _from_files(self) -> Told | None:
        """They are read again at each look, as nodes may have been made meanwhile."""
        can_be = self._is_starting and self._settings.data_root
        return read_files(Path(self._settings.data_root)) if can_be else None

    def claims(self, engine: str, *, before: int | None = None) -> Claims:
        """What holds GPUs, and who came earlier."""
        docker = self._from_files()
        told = ask_engines([one for one in self._settings.engines if docker is None or one not in self._settings.own])
        self.names, self._projects = (docker or told).names, (docker or told).projects
        self._records = tuple(one for one in read_records() if (one.id, one.state) != (self._container, self._state))
        records = (record.lease for record in self._records)
        return Claims(
            engine=engine,
            leases=(*told.leases, *records),
            waiting=read_waiting(self.queue, before=before),
            silent=told.silent,
        )

    def require_own_id(self) -> None:
        """Go on if no other one of the same id holds GPUs, as last seen: each id has one record.

        Raises:
            HostNotReady: There is one, of another engine or namespace.
        """
        other = next((one for one in self._records if one.id == self._container), None)
        if other:
            raise HostNotReady(
                f"another container with the id {excerpt(other.id)} holds GPUs",
                evidence=f"its state is in {other.state}",
                fix="give this one another id",
            )

    def require_room(self, most: int, gpus: Collection[str]) -> None:
        """Go on if the container's project may hold these GPUs besides those that it holds, as last seen.

        A container without a project is one of its own. It is no GpusTaken: others would wait behind this request.

        Raises:
            UsageError: It may not.
        """
        project = self._projects.get(self._container)
        beside = [one for one in self._records if project is not None and self._projects.get(one.id) == project]
        held = {gpu for one in beside for gpu in one.gpus}
        if len(held | {*gpus}) > most:
            whose = "a container without a project" if project is None else f"the project {excerpt(project)}"
            holders = f"; {len(held)} held by {', '.join(one.name for one in beside)}" if held else ""
            raise UsageError(
                f"the policy of this host refuses it: {whose} may hold {most} GPU{'s' if most != 1 else ''} at once",
                evidence=f"gpus_per_project: {len(gpus)} more requested{holders}",
                fix="end a container of the project, or ask for fewer GPUs",
            )


def _give(call: Call, spec: Spec, host: HostGpus, request: LeaseRequest, units: Sequence[Gpu], owner: str) -> None:
    """The record comes first: it counts from then on, and no more if this process ends before runc begins."""
    rootfs = _rootfs(call, spec)
    additions = render_additions(host, units, folder=call.folder, bundle=call.bundle, rootfs=rootfs)
    additions = replace(
        additions,
        files=own_files(spec, additions.files),
        lease={"gpus": [unit.uuid for unit in units], "sharing": request.sharing},
    )
    record = Record(
        id=call.container,
        name=request.node,
        engine=engine_of(spec, call.state_root),
        gpus=tuple(unit.uuid for unit in units),
        sharing=request.sharing,
        minors=tuple(sorted({unit.minor for unit in units})),
        state=str(call.state_root / call.container),
        process=owner,
    )
    write_record(record)
    make_targets(rootfs, additions.files)
    if is_in_charge(spec):
        place_by_number(additions.devices)
    if host.simulated:
        write_simulated(call.bundle, units, folder=call.folder)
    _write(call, add_gpus(spec, additions))


def _rootfs(call: Call, spec: Spec) -> Path:
    return call.bundle / str((spec.get("root") or {}).get("path") or "rootfs")


def _write(call: Call, spec: Spec) -> None:
    replace_file(call.config, json.dumps(spec), mode=call.config.stat().st_mode & 0o777)


def engine_of(spec: Spec, state_root: Path) -> str:
    """Which engine makes the container: Docker keeps its containers' state in a folder `moby`."""
    if (spec.get("annotations") or {}).get("io.container.manager") == "libpod":
        return "podman"
    return "docker" if state_root.name == "moby" else "container"
