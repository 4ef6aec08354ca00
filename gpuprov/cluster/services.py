"""The services in a node, whichever init it has: the one place that speaks systemctl and sv."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.core.excerpt import last_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import Driver, ExecResult
    from gpuprov.provision.role_recipe import Init

BOOTED = frozenset({"running", "degraded"})
DOWN = ("inactive", "failed", "down:")
COMMAND_BUDGET_S = 30.0
_STOP_BUDGET_S = 60.0
_LOG_LINES = 10
_SAID = 1500
_FORGET = "rm -f /etc/ssh/ssh_host_* /etc/machine-id"


@dataclass(frozen=True, kw_only=True)
class _Verbs:
    """What one init is told.

    Attributes:
        state: Prints how far the boot is, in one of systemd's words.
        restart: Begins an argv that ends with the service's name, as do the next four.
        stop: Stops it, and waits for that.
        is_up: Prints one of `DOWN` where it is stopped, perhaps with more behind it.
        log: Prints the end of a service's log; empty where that is the node's console.
        status: For the user to type.
        new_identity: A shell script that gives a running copy a machine id and an ssh host key of its own.
        pending: Prints what the boot waits for; empty where nothing can.
        settle: A shell line for after that, once services that are not to run have been stopped.
        reload_ssh: Has sshd read its files again; empty where each connection has one of its own.
    """

    state: tuple[str, ...]
    restart: tuple[str, ...]
    stop: tuple[str, ...]
    is_up: tuple[str, ...]
    log: tuple[str, ...]
    status: tuple[str, ...]
    new_identity: str
    pending: tuple[str, ...] = ()
    settle: str = ""
    reload_ssh: tuple[str, ...] = ()


_VERBS: dict[Init, _Verbs] = {
    "systemd": _Verbs(
        state=("systemctl", "is-system-running"),
        restart=("systemctl", "restart"),
        stop=("systemctl", "stop"),
        is_up=("systemctl", "is-active"),
        log=("journalctl", "-n", str(_LOG_LINES), "--no-pager", "-u"),
        status=("systemctl", "status"),
        new_identity=f"""
{_FORGET}
systemd-machine-id-setup
systemctl restart gpuprov-host-key.service
""",
        pending=("systemctl", "list-jobs", "--no-legend", "--no-pager"),
        settle="systemctl reset-failed",
    ),
    "runit": _Verbs(
        state=("echo", "running"),  # a node that runs a command has all that its init makes first
        restart=("sv", "-w", "10", "restart"),
        stop=("sv", "-w", "50", "down"),
        is_up=("sv", "status"),
        log=(),
        status=("sv", "status"),
        new_identity=f"""
{_FORGET}
tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
ssh-keygen -q -t ed25519 -N "" -C "" -f /etc/ssh/ssh_host_ed25519_key
sv restart ssh
""",
        reload_ssh=("sv", "hup", "ssh"),
    ),
}


def reload_ssh(driver: Driver, node: str) -> None:
    """Have new connections of ssh begin with what sshd's files say now; those that there are go on."""
    argv = _VERBS[init_of(driver)].reload_ssh
    if argv:
        driver.run(node, argv, timeout_s=COMMAND_BUDGET_S)


def init_of(driver: Driver) -> Init:
    """The init of the engine's nodes."""
    return "systemd" if "systemd" in driver.capabilities else "runit"


def boot_state(driver: Driver, name: str) -> str:
    """How far a running node's boot is."""
    return driver.run(name, _VERBS[init_of(driver)].state, timeout_s=COMMAND_BUDGET_S).stdout.strip()


def describe_boot(driver: Driver, name: str) -> str:
    """What a boot that does not end still waits for; empty if unknown."""
    try:
        pending = _pending(driver, name)
    except GpuprovError as error:
        return error.evidence
    return last_words(pending.stdout) if pending else ""


def undone_of_boot(driver: Driver, name: str) -> int:
    """How many steps of a boot are left; as many as can be where nobody says."""
    pending = _pending(driver, name)
    return len(pending.stdout.splitlines()) if pending and pending.exit_code == 0 else sys.maxsize


def _pending(driver: Driver, name: str) -> ExecResult | None:
    argv = _VERBS[init_of(driver)].pending
    return driver.run(name, argv, timeout_s=COMMAND_BUDGET_S) if argv else None


def is_booted(state: str) -> bool:
    """Whether everything was started that starts at boot."""
    return state in BOOTED


def restart(driver: Driver, name: str, service: str) -> ExecResult:
    """Start a service of a node, again if it runs; its exit status is not judged."""
    return driver.run(name, [*_VERBS[init_of(driver)].restart, service], timeout_s=COMMAND_BUDGET_S)


def restart_well(driver: Driver, name: str, service: str) -> None:
    """Start a service of a node, again if it runs.

    Raises:
        EngineError: It did not come back.
    """
    result = restart(driver, name, service)
    if result.exit_code:
        log = read_log(driver, name, service)
        raise EngineError(
            f"{service} did not restart on {name}",
            evidence=json.dumps((result.stdout + result.stderr + log)[-_SAID:]),
            fix=status_command(driver, name, service),
        )


def stop_well(driver: Driver, name: str, service: str) -> None:
    """Stop a service of a node, which writes down what it knows.

    Raises:
        EngineError: It goes on.
    """
    result = driver.run(name, [*_VERBS[init_of(driver)].stop, service], timeout_s=_STOP_BUDGET_S)
    if not is_down(driver, name, service):
        raise EngineError(
            f"{service} did not stop on {name}",
            evidence=json.dumps((result.stdout + result.stderr)[-_SAID:]),
            fix=status_command(driver, name, service),
        )


def is_down(driver: Driver, name: str, service: str) -> bool:
    """Whether a service of a node is stopped."""
    said = driver.run(name, [*_VERBS[init_of(driver)].is_up, service], timeout_s=COMMAND_BUDGET_S).stdout
    return said.startswith(DOWN)


def read_log(driver: Driver, name: str, service: str) -> str:
    """The last lines that a service of a node has logged."""
    log = _VERBS[init_of(driver)].log
    if not log:
        lines = (line for line in driver.logs(name).splitlines() if line.startswith(service))
        return "\n".join([*lines][-_LOG_LINES:])
    return driver.run(name, [*log, service], timeout_s=COMMAND_BUDGET_S).stdout


def status_command(driver: Driver, name: str, service: str) -> str:
    """What to type to see how a service of a node is."""
    return f"gpuprov exec {name} -- {' '.join(_VERBS[init_of(driver)].status)} {service}"


def log_command(driver: Driver, name: str, names: Iterable[str]) -> str:
    """What to type to read what these services of a node have logged."""
    log = _VERBS[init_of(driver)].log
    units = " ".join(f"-u {service}" for service in names)
    return f"gpuprov exec {name} -- journalctl {units}" if log else f"gpuprov logs {name}"


def give_identity(driver: Driver, name: str, *, forget: str) -> None:
    """Give a running copy of a node an ssh host key and a machine id of its own.

    Args:
        driver: Reaches the node.
        name: The node.
        forget: Shell lines by which it gives up its source's part in a role.
    """
    verbs = _VERBS[init_of(driver)]
    script = f"{verbs.new_identity.strip()}\n{forget}\n{verbs.settle}"
    driver.run(name, ["sh", "-c", script], timeout_s=COMMAND_BUDGET_S)
