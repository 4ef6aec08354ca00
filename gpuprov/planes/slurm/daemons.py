"""What Slurm's daemons in the nodes are asked and told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpuprov.cluster import services
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.side_by_side import each
from gpuprov.core.waiting import Wait
from gpuprov.planes.slurm.facts import ready_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver

DAEMONS = ("slurmctld", "slurmd")
_READY_BUDGET_S = 90.0
_COMMAND_BUDGET_S = 30.0
# While there is no controller yet, sinfo asks again a second later, and for ten seconds; ping ends at once.
_STATES = "scontrol ping >/dev/null 2>&1 && exec sinfo -h -N -o '%N %T'"


def node_states(driver: Driver, controller: str) -> dict[str, str]:
    """Slurm's word for each node, such as `idle` or `down*`; empty while the controller does not answer."""
    result = driver.run(controller, ["sh", "-c", _STATES], timeout_s=_COMMAND_BUDGET_S)
    if result.exit_code:
        return {}
    return dict(line.split() for line in result.stdout.splitlines() if line.strip())


def wait_ready(driver: Driver, controller: str, names: Sequence[str], reporter: Reporter) -> None:
    """Wait until Slurm takes jobs on every node.

    Raises:
        TimedOut: With each node's last state.
    """

    def observe() -> dict[str, str]:
        states = node_states(driver, controller)
        for name in names:
            reporter.node(name, states.get(name, "unknown to Slurm"))
        return {name: states.get(name, "unknown") for name in names}

    Wait(
        what=f"Slurm to be ready on {len(names)} nodes",
        timeout_s=_READY_BUDGET_S,
        fix=f"gpuprov exec {controller} -- sinfo -R; {services.log_command(driver, controller, DAEMONS)}",
    ).until(observe, lambda states: all(state in ready_states() for state in states.values()))


def refuse_running_jobs(driver: Driver, controller: str, names: Sequence[str]) -> None:
    """Refuse to take nodes away under a running job.

    Raises:
        UsageError: A job runs on one of them.
    """
    argv = ["squeue", "-h", "-t", "running,completing", "-w", ",".join(names), "-o", "%i on %N"]
    result = driver.run(controller, argv, timeout_s=_COMMAND_BUDGET_S)
    jobs = result.stdout.strip()
    if result.exit_code == 0 and jobs:
        raise UsageError(
            f"jobs are running on nodes that would be removed or restarted: {', '.join(names)}",
            evidence=jobs,
            fix=f"wait for them, or cancel them: gpuprov exec {controller} -- scancel JOB",
        )


def restart_daemons(driver: Driver, controller: str, names: Iterable[str]) -> None:
    """Make running daemons read changed files; jobs go on, as slurmd's steps outlive it.

    slurmctld comes first: a slurmd that asks about nodes its controller does not know is refused.

    Raises:
        EngineError: A daemon did not come back.
    """
    restart_daemon(driver, controller, "slurmctld")
    each(lambda name: restart_daemon(driver, name, "slurmd"), list(names))


def restart_daemon(driver: Driver, name: str, service: str) -> None:
    """Restart one daemon of a node.

    Raises:
        EngineError: It did not come back.
    """
    result = services.restart(driver, name, service)
    if result.exit_code:
        log = services.read_log(driver, name, service)
        raise EngineError(
            f"{service} did not restart on {name}",
            evidence=json.dumps((result.stdout + result.stderr + log)[-1500:]),
            fix=services.status_command(driver, name, service),
        )
