"""Leases that the engines of this machine hold, asked by plain HTTP: a start of a container waits for the answers."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.docker_labels import parse_changed_labels
from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.process import is_gone
from gpuprov.gpu.allocate import Lease

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.core.errors import GpuprovError

ANSWER_S: Final = 2.0
_MOST_BYTES: Final = 64_000_000
_DOCKER: Final = "/containers/json?all=1"  # of no version: Docker 29.0 refuses those that 20.10 knows
_NETWORKS: Final = "/networks"  # which hold labels that were changed
_LXD: Final = "/1.0/instances?recursion=1"
_OK: Final = b" 200 "
_LXD_PREFIX: Final = "user."
# The labels of nodes (drivers/base.py), which a test compares.
GPUS, SHARING, CLUSTER, SELF = "gpuprov.gpus", "gpuprov.sharing", "gpuprov.cluster", "gpuprov.self"
PROJECT: Final = "com.docker.compose.project"
ROLE, PROCESS, DETACHED, JOB = "gpuprov.role", "gpuprov.process", "gpuprov.detached", "job"


@dataclass(frozen=True, kw_only=True)
class Place:
    """An engine of this machine.

    Attributes:
        sockets: Where it may be reached.
        installed: Whether its silence means something.
    """

    engine: str
    sockets: tuple[str, ...]
    installed: bool = True


@dataclass(frozen=True, kw_only=True)
class Told:
    """What engines answered.

    Attributes:
        names: Of Docker's containers, by id.
        nodes: Ids of those that gpuprov made.
        projects: Of compose, by id of the container.
        silent: Why engines did not answer.
    """

    leases: tuple[Lease, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    projects: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, GpuprovError] = field(default_factory=dict)


def ask_engines(places: Iterable[Place], *, answer_s: float = ANSWER_S) -> Told:
    """Ask all side by side; each has the same time."""
    late_s = time.monotonic() + answer_s
    lines = [
        (place.engine, [_call(place, question, late_s) for question in _questions(place.engine)]) for place in places
    ]
    leases: list[Lease] = []
    names: dict[str, str] = {}
    nodes: set[str] = set()
    projects: dict[str, str] = {}
    silent: dict[str, GpuprovError] = {}
    for engine, asked in lines:
        if asked[0] is None:
            continue
        try:
            answers = [_read(line, late_s) for line in asked]
            if engine == "docker":
                answer = answers[0]
                called = {str(one["Id"]): str(one["Names"][0]).lstrip("/") for one in answer if one.get("Names")}
                names |= called
                projects |= {str(one["Id"]): name for one in answer if (name := (one.get("Labels") or {}).get(PROJECT))}
                nodes |= {str(one["Id"]) for one in answer if _is_node(one, called.get(str(one["Id"])))}
                leases += read_docker(answer, parse_changed_labels(answers[1]))
            else:
                leases += read_lxd(answers[0]["metadata"], engine=engine)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            silent[engine] = EngineError(
                f"{engine} does not respond",
                evidence=str(error) or f"no response within {answer_s:g} s",
                fix=f"check the engine: gpuprov doctor --engine {engine}",
            )
        finally:
            for line in asked:
                if isinstance(line, socket.socket):
                    line.close()
    return Told(leases=tuple(leases), names=names, nodes=frozenset(nodes), projects=projects, silent=silent)


def _questions(engine: str) -> tuple[str, ...]:
    return (_DOCKER, _NETWORKS) if engine == "docker" else (_LXD,)


def _is_node(document: Mapping[str, Any], name: str | None) -> bool:
    """Whether gpuprov made the container: what has the labels of its image alone has another name."""
    labels = document.get("Labels") or {}
    return bool(labels.get(CLUSTER)) and labels.get(SELF) == name


def read_docker(
    documents: Iterable[Mapping[str, Any]], changed: Mapping[str, Mapping[str, str]] | None = None
) -> list[Lease]:
    """Leases of Docker's nodes; what was made from the image of a node has its labels, and another name.

    Args:
        documents: The containers.
        changed: Labels that were changed later, by the id of the container.
    """
    found = []
    for document in documents:
        name = str((document.get("Names") or ["?"])[0]).lstrip("/")
        labels = {**(document.get("Labels") or {}), **(changed or {}).get(str(document.get("Id")), {})}
        found += _lease(name, labels, engine="docker", status=str(document.get("State", "")))
    return found


def read_lxd(documents: Iterable[Mapping[str, Any]], *, engine: str) -> list[Lease]:
    """Leases of the nodes of LXD or Incus."""
    found = []
    for document in documents:
        config = document.get("config") or {}
        labels = {key.removeprefix(_LXD_PREFIX): value for key, value in config.items() if key.startswith(_LXD_PREFIX)}
        found += _lease(str(document["name"]), labels, engine=engine, status=str(document.get("status", "")).lower())
    return found


def _lease(name: str, labels: Mapping[str, str], *, engine: str, status: str) -> list[Lease]:
    gpus = tuple(uuid for uuid in labels.get(GPUS, "").split(",") if uuid)
    is_copy = labels.get(SELF) not in (None, "", name)
    attached = labels.get(ROLE) == JOB and DETACHED not in labels
    killed = attached and status != "running" and is_gone(labels.get(PROCESS, ""))
    if not gpus or not labels.get(CLUSTER) or is_copy or killed:
        return []
    sharing = labels.get(SHARING, "shared")
    return [
        Lease(
            node=excerpt(name),
            gpus=gpus,
            sharing="shared" if sharing == "shared" else "exclusive",
            engine=engine,
            cluster=excerpt(labels[CLUSTER]),
            status=status,
        )
    ]


def _call(place: Place, question: str, late_s: float) -> socket.socket | OSError | None:
    """The connection with the question in it; None where the engine is not on this machine."""
    failure: OSError | None = OSError(f"no socket at {place.sockets[0]}") if place.installed else None
    for path in place.sockets:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.settimeout(max(0.01, late_s - time.monotonic()))
            line.connect(path)
            line.sendall(f"GET {question} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        except OSError as error:
            line.close()
            if not isinstance(error, FileNotFoundError):
                failure = OSError(f"{path}: {error}")
        else:
            return line
    return failure


def _read(line: socket.socket | OSError | None, late_s: float) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(line, socket.socket):
        raise line or OSError("its socket is gone")
    pieces: list[bytes] = []
    size = 0
    with line:
        while True:
            line.settimeout(max(0.01, late_s - time.monotonic()))
            if not (piece := line.recv(1 << 20)):
                break
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_BYTES:
                raise OSError(f"the answer is larger than {_MOST_BYTES} bytes")
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    if _OK not in head.partition(b"\r\n")[0]:
        raise OSError(excerpt(head.decode(errors="replace")) or "no answer")
    return json.loads(body)
