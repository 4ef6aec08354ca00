"""`rest`, `token`: Slurm's REST API on a port of this host, and tokens for it; no lock is held."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.names import name_cluster
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.lifecycle.find_controller import roles_of_cluster
from gpuprov.shapes.rest import Token
from gpuprov.stories.queue_page import serve_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.roles.work.rest import RestService

_ANSWER_S: Final = 15.0
_SAID: Final = re.compile(r"SLURM_JWT=([A-Za-z0-9_-]{1,2000}(?:\.[A-Za-z0-9_-]{1,2000}){2})\n?", re.ASCII)


def make_token(driver: Driver, cluster: str, lifespan_s: int, host: Host) -> Token:
    """A token with which the account of jobs may ask Slurm's REST API.

    Raises:
        UsageError: The cluster has no such API (now).
        EngineError: Slurm made none.
    """
    service = _find(driver, cluster, verb="gpuprov token")
    said = driver.run(service.node, service.token_argv(lifespan_s), timeout_s=scaled_limit_s(_ANSWER_S))
    found = _SAID.fullmatch(said.stdout)
    if said.exit_code or found is None:
        # not its output, which may be a token
        evidence = excerpt(said.stderr.strip(), LINE) or f"exit status {said.exit_code}"
        raise EngineError(f"Slurm made no token on {service.node}", evidence=evidence, fix=service.fix)
    return Token(host=host.name, cluster=cluster, account=service.account, lifespan_s=lifespan_s, token=found[1])


def relay_rest(
    driver: Driver,
    cluster: str,
    port: int,
    host: Host,
    *,
    ready: Callable[[RestService], object],
    reporter: Reporter,
) -> None:
    """Let this host's 127.0.0.1 lead to Slurm's REST API, until KeyboardInterrupt.

    Args:
        port: Of this host.
        host: This host.
        ready: Is called once the API can be asked.
        reporter: Hears of connections that the node does not answer.

    Raises:
        UsageError: The cluster has no such API (now), or the port is taken.
        EngineError: It does not answer.
    """
    service = _find(driver, cluster, verb="gpuprov rest")
    serve_page(driver, service, cluster, port, host, verb="gpuprov rest", ready=ready, reporter=reporter)


def _find(driver: Driver, cluster: str, *, verb: str) -> RestService:
    state, roles = roles_of_cluster(driver, cluster, verb=verb)
    for role in roles:
        service = role.rest(state)
        if service is not None:
            return service
    raise UsageError(
        f"cluster {cluster} has no REST API",
        evidence=f"its nodes are for: {', '.join(role.name for role in roles)}; Slurm has one",
        fix=name_cluster("list its jobs: gpuprov jobs", cluster),
    )
