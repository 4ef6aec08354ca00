"""Leases on GPUs, read from the labels of every node of every engine of this host."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, cast

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.core.lock import describe_process
from gpuprov.core.process import is_gone
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_GPUS, LABEL_PROCESS, LABEL_ROLE, LABEL_SHARING, ROLE_JOB
from gpuprov.gpu.allocate import Claims, Lease, LeaseRequest, Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpuprov.core.queue import Ticket
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.host.base import Host
    from gpuprov.host.survey import EngineDoor
    from gpuprov.spec.models import Sharing

    _Answer = tuple[Lease, ...] | GpuprovError | None

ANSWER_S: Final = 10.0


def leased_uuids(node: NodeState) -> tuple[str, ...]:
    """UUIDs of the GPUs a node holds."""
    return tuple(uuid for uuid in node.labels.get(LABEL_GPUS, "").split(",") if uuid)


def read_leases(nodes: Iterable[NodeState], *, engine: str) -> tuple[Lease, ...]:
    """Who holds what, stopped and unfinished nodes too: a lease lives as long as its node.

    But nothing is held by a job whose `gpuprov run` was killed before it started.
    """
    return tuple(
        Lease(
            node=node.name,
            host=node.host,
            gpus=leased_uuids(node),
            sharing=cast("Sharing", node.labels.get(LABEL_SHARING, "shared")),
            engine=engine,
            cluster=node.labels.get(LABEL_CLUSTER, ""),
            status=node.status,
        )
        for node in nodes
        if leased_uuids(node) and (node.status == "running" or not is_orphan(node))
    )


def is_orphan(node: NodeState) -> bool:
    """Whether it is a job whose `gpuprov run` was killed."""
    return node.labels.get(LABEL_ROLE) == ROLE_JOB and is_gone(node.labels.get(LABEL_PROCESS, ""))


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What all engines say: their leases, and which ones say nothing."""

    answering: tuple[str, ...]
    leases: tuple[Lease, ...]
    silent: tuple[Silent, ...]


class Neighbours:
    """The engines of a host, and the queue of those who wait for its GPUs."""

    def __init__(self, host: Host) -> None:
        self.queue = host.queue
        self._engines = host.engines
        self._open: dict[str, Driver] = {}

    def survey(self, *, without: str = "") -> Survey:
        """Ask all engines at once; one that is not installed is left out silently.

        Args:
            without: Name of an engine not to ask, because its nodes are known.
        """
        asked = [engine for engine in self._engines if engine.name != without]
        said: dict[str, _Answer] = {engine.name: _hangs(engine.name) for engine in asked}
        answers: SimpleQueue[tuple[str, _Answer]] = SimpleQueue()
        for engine in asked:  # daemons, which end with the process, also where an engine hangs
            Thread(target=partial(self._ask, engine, answers.put), daemon=True).start()
        deadline_s = time.monotonic() + ANSWER_S
        with suppress(Empty):
            for _ in asked:
                name, answer = answers.get(timeout=max(0.0, deadline_s - time.monotonic()))
                said[name] = answer
        return Survey(
            answering=tuple(name for name, answer in said.items() if isinstance(answer, tuple)),
            leases=tuple(lease for answer in said.values() if isinstance(answer, tuple) for lease in answer),
            silent=tuple(
                Silent(engine=name, error=answer) for name, answer in said.items() if isinstance(answer, GpuprovError)
            ),
        )

    def claims(self, engine: str, *, before: int | None = None) -> Claims:
        """What a request to `engine` has to respect beside that engine's own nodes.

        Args:
            engine: Name of the engine whose nodes are known.
            before: Number of one's own ticket; those that wait later need no respect.
        """
        survey = self.survey(without=engine)
        waiting = self.waiting(before=before)
        return Claims(engine=engine, leases=survey.leases, waiting=waiting, silent=survey.silent)

    def waiting(self, *, before: int | None = None) -> tuple[LeaseRequest, ...]:
        """Who stands in the queue, the first one first; with `before`, only those ahead of that ticket."""
        tickets = [ticket for ticket in self.queue.waiting() if before is None or ticket.number < before]
        return tuple(request for ticket in tickets if (request := parse_ticket(ticket)) is not None)

    def _ask(self, engine: EngineDoor, answer: Callable[[tuple[str, _Answer]], None]) -> None:
        driver = self._open.pop(engine.name, None)  # after an error the next query reconnects
        try:
            driver = driver or engine.open()
            leases = read_leases(driver.list_nodes(), engine=engine.name)
        except GpuprovError as error:
            answer((engine.name, error if engine.installed() else None))
        except Exception as error:  # noqa: BLE001 - whatever it is, that engine's leases are not known
            evidence = f"unexpected {type(error).__name__}: {error}"
            fix = f"gpuprov doctor --engine {engine.name}"
            answer((engine.name, EngineError(f"{engine.name} cannot be queried", evidence=evidence, fix=fix)))
        else:
            self._open[engine.name] = driver
            answer((engine.name, leases))


def _hangs(engine: str) -> TimedOut:
    return TimedOut(
        f"{engine} does not respond",
        evidence=f"no response within {ANSWER_S:g} s",
        fix=f"check the engine: gpuprov doctor --engine {engine}",
    )


def render_ticket(request: LeaseRequest) -> str:
    """A request as others in the queue read it; it waits under the name of this process."""
    return json.dumps({**asdict(request), "node": describe_process()})


def parse_ticket(ticket: Ticket) -> LeaseRequest | None:
    """What another process waits for; None where it is written in another form."""
    try:
        said: dict[str, Any] = json.loads(ticket.text)
        among = said["among"]
        return LeaseRequest(
            node=str(said["node"]),
            sharing="exclusive" if said["sharing"] == "exclusive" else "shared",
            count=int(said["count"]),
            wanted=tuple(map(str, said["wanted"])),
            among=None if among is None else tuple(map(str, among)),
        )
    except (ValueError, KeyError, TypeError):
        return None
