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

from gpuprov.core.errors import GpuprovError, HostNotReady, PartDone, TimedOut
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
from gpuprov.runtime.edit import add_gpus, own_files
from gpuprov.runtime.engines import ask_engines
from gpuprov.runtime.gpus import read_gpus, render_additions, write_simulated
from gpuprov.runtime.policy import read_policy
from gpuprov.runtime.records import Record, drop_record, find_orphans, read_records, write_record
from gpuprov.runtime.request import read_request
from gpuprov.runtime.targets import make_targets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.gpu.allocate import LeaseRequest
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.runtime.policy import Policy
    from gpuprov.runtime.request import Asked, Spec

REFUSED = 3  # the exit code by which the front knows that it has been said why
_MOST_BYTES = 8 * 2**20 - 1  # of config.json: what is larger is refused
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
    """

    folder: Path
    front: int
    bundle: Path
    state_root: Path
    container: str
    log: str
    named: bool

    @property
    def config(self) -> Path:
        """The file."""
        return self.bundle / "config.json"


def main(arguments: Sequence[str]) -> int:
    """Do what can be done for one container.

    Returns:
        0 to go on with runc; REFUSED where it was said why not.
    """
    folder, front, bundle, root, container, log, named = arguments
    call = Call(
        folder=Path(folder),
        front=int(front),
        bundle=Path(bundle).absolute(),
        state_root=Path(root).absolute(),
        container=container,
        log=log,
        named=named == "1",
    )
    sys.argv = ["gpuprov-runtime", "create", container[:12]]  # how others read who waits
    try:
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
    """Lease GPUs to the container and write them into its config.json; nothing if it asks for none.

    Raises:
        GpuprovError: It cannot have them.
    """
    if call.container.startswith("."):
        raise HostNotReady("this id is not possible here", evidence=call.container, fix="use one without the dot")
    spec = read_spec(call.config)
    asked = read_request(spec, named=call.named)
    if asked is None:
        return
    policy = read_policy(call.folder)
    docker = ask_engines([place for place in policy.engines if place.engine == "docker"])
    for error in docker.silent.values():
        raise error  # it may be a node, whose maker holds the lock
    if call.container in docker.nodes:
        return  # it has its GPUs, and who makes it may hold the lock
    host = read_gpus(policy)
    request = resolve_order(
        asked, asked.environment, host, asked.default, node=str(spec.get("hostname") or call.container)
    )
    if not request.size:
        return
    owner = describe_owner(call.front)
    others = Others(policy, container=call.container)

    def choose(turn: Turn) -> tuple[LeaseRequest, tuple[Gpu, ...]]:
        if is_gone(owner):
            raise PartDone("the engine has ended the runtime", evidence=owner, fix="start the container again")
        claims = turn.claims()
        named = replace(request, node=others.names.get(call.container, request.node))
        (units,) = allocate(host, (), [named], claims=claims).values()
        return named, units

    def attempt(turn: Turn) -> None:
        with host_lock(reporter, gates=Gates()):
            for orphan in find_orphans():
                drop_record(orphan)
            named, units = choose(turn)
            _give(call, spec, host, named, units, owner)
        turn.end()

    reporter = Silent()
    turn = Turn(neighbours=others, engine="docker")
    when_free(_patience(asked), turn, look=choose, attempt=attempt, reporter=reporter)


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

    def __init__(self, policy: Policy, *, container: str) -> None:
        self.queue = Queue(Gates())
        self.names: Mapping[str, str] = {}
        self._policy = policy
        self._container = container

    def claims(self, engine: str, *, before: int | None = None) -> Claims:
        """What holds GPUs, and who came earlier."""
        told = ask_engines(self._policy.engines)
        self.names = told.names
        records = (record.lease for record in read_records() if record.id != self._container)
        return Claims(
            engine=engine,
            leases=(*told.leases, *records),
            waiting=read_waiting(self.queue, before=before),
            silent=told.silent,
        )


def _give(call: Call, spec: Spec, host: HostGpus, request: LeaseRequest, units: Sequence[Gpu], owner: str) -> None:
    """The record comes first: it counts from then on, and no more if this process ends before runc begins."""
    rootfs = call.bundle / str((spec.get("root") or {}).get("path") or "rootfs")
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
    if host.simulated:
        write_simulated(call.bundle, units, folder=call.folder)
    replace_file(call.config, json.dumps(add_gpus(spec, additions)), mode=call.config.stat().st_mode & 0o777)


def engine_of(spec: Spec, state_root: Path) -> str:
    """Which engine makes the container: Docker keeps its containers' state in a folder `moby`."""
    if (spec.get("annotations") or {}).get("io.container.manager") == "libpod":
        return "podman"
    return "docker" if state_root.name == "moby" else "container"
