"""`queue page`, `program page`: a page that a node shows, on a port of this host; no lock is held."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar

from gpuprov.core.errors import EngineError, TimedOut, UsageError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.names import name_cluster
from gpuprov.core.relay import HERE, Relay
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.core.waiting import Wait
from gpuprov.lifecycle.find_controller import get_queue_page
from gpuprov.roles.work.work_place import require_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.roles.work.queue_page import NodeService, QueuePage

    Page = TypeVar("Page", bound=NodeService)

_ANSWER_S: Final = 15.0
_START_S: Final = 15.0
_NEXT: Final = 10_000  # to a port that is seldom taken


def relay_queue_page(
    driver: Driver,
    cluster: str,
    port: int,
    host: Host,
    *,
    ready: Callable[[QueuePage], object],
    reporter: Reporter,
) -> None:
    """Let this host's 127.0.0.1 lead to the page of a cluster's queue, until KeyboardInterrupt.

    Args:
        port: Of this host.
        host: This host.
        ready: Is called once the page can be opened.
        reporter: Hears of connections that the node does not answer.

    Raises:
        UsageError: The cluster has no such page (now), or the port is taken.
        EngineError: The page does not answer.
    """
    serve_page(
        *(driver, get_queue_page(driver, cluster), cluster, port, host),
        verb="gpuprov queue page", ready=ready, reporter=reporter,
    )  # fmt: skip


def serve_page(  # noqa: PLR0913  (whose page, where it is to be, and who is told)
    driver: Driver,
    page: Page,
    cluster: str,
    port: int,
    host: Host,
    *,
    verb: str,
    ready: Callable[[Page], object],
    reporter: Reporter,
) -> None:
    """Let this host's 127.0.0.1 lead to a service of a node, until KeyboardInterrupt; the verb is what the user typed.

    Raises:
        UsageError: The port is taken.
        EngineError: The page does not answer.
    """
    _require_answer(driver, page, cluster)
    argv = driver.attach_argv(page.node, page.relay_argv, environment={}, piped=True)
    try:
        relay = Relay(
            port, argv, failed=lambda why: reporter.warn(f"{page.node} did not answer ({why}); look: {page.fix}")
        )
    except OSError as error:
        another = port % _NEXT + _NEXT
        raise UsageError(
            f"port {port} of this host cannot be used for the {page.title}",
            evidence=host.listener(HERE, port) or str(error),
            fix=f"use another one: {name_cluster(verb, cluster)} --port {another}",
        ) from error
    with closing(relay):
        ready(page)
        relay.serve()


def _require_answer(driver: Driver, page: NodeService, cluster: str) -> None:
    """Connect and send nothing, until it answers: the page of a new cluster starts after all else."""
    said: list[str] = []

    def connect() -> bool:
        result = driver.run(page.node, page.relay_argv, timeout_s=scaled_limit_s(_ANSWER_S))
        require_program(result.stderr, page.node, cluster)
        said[:] = [excerpt(result.stderr.strip(), LINE) or f"exit status {result.exit_code}"]
        return result.exit_code == 0

    try:
        Wait(what=f"the {page.title}", timeout_s=scaled_limit_s(_START_S), fix=page.fix).until(connect, bool)
    except TimedOut as error:
        raise EngineError(f"the {page.title} does not answer on {page.node}", evidence=said[0], fix=page.fix) from error
