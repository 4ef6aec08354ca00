"""The services in a node, whichever init it has: the one place that speaks systemctl and sv."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver, ExecResult
    from gpuprov.provision.recipe import Init

Service = Literal["munge", "slurmctld", "slurmd"]

BOOTED = frozenset({"running", "degraded"})
COMMAND_BUDGET_S = 30.0
_LOG_LINES = 10
_FORGET = "rm -f /etc/ssh/ssh_host_* /etc/machine-id /etc/slurm/controller"


@dataclass(frozen=True, kw_only=True)
class _Verbs:
    """What one init is told.

    Attributes:
        state: Prints how far the boot is, in one of systemd's words.
        restart: Begins an argv that ends with the service's name, as do the next two.
        log: Prints the end of a service's log; empty where that is the node's console.
        status: For the user to type.
        new_identity: A shell script that gives a running copy a machine id and an ssh host key of its own, and takes
            its source's part in Slurm from it.
    """

    state: tuple[str, ...]
    restart: tuple[str, ...]
    log: tuple[str, ...]
    status: tuple[str, ...]
    new_identity: str


_VERBS: dict[Init, _Verbs] = {
    "systemd": _Verbs(
        state=("systemctl", "is-system-running"),
        restart=("systemctl", "restart"),
        log=("journalctl", "-n", str(_LOG_LINES), "--no-pager", "-u"),
        status=("systemctl", "status"),
        new_identity=f"""
{_FORGET}
systemd-machine-id-setup
systemctl restart gpuprov-host-key.service
systemctl stop slurmctld.service
systemctl reset-failed
""",
    ),
    "runit": _Verbs(
        state=("echo", "running"),  # a node that runs a command has all that its init makes first
        restart=("sv", "-w", "10", "restart"),
        log=(),
        status=("sv", "status"),
        new_identity=f"""
{_FORGET}
tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
ssh-keygen -q -t ed25519 -N "" -C "" -f /etc/ssh/ssh_host_ed25519_key
sv restart ssh
[ ! -d /etc/service/slurmctld ] || sv down slurmctld
""",
    ),
}


def init_of(driver: Driver) -> Init:
    """The init of the engine's nodes."""
    return "systemd" if "systemd" in driver.capabilities else "runit"


def boot_state(driver: Driver, name: str) -> str:
    """How far a running node's boot is."""
    return driver.run(name, _VERBS[init_of(driver)].state, timeout_s=COMMAND_BUDGET_S).stdout.strip()


def is_booted(state: str) -> bool:
    """Whether everything was started that starts at boot."""
    return state in BOOTED


def restart(driver: Driver, name: str, service: Service) -> ExecResult:
    """Start a service of a node, again if it runs; its exit status is not judged."""
    return driver.run(name, [*_VERBS[init_of(driver)].restart, service], timeout_s=COMMAND_BUDGET_S)


def read_log(driver: Driver, name: str, service: Service) -> str:
    """The last lines that a service of a node has logged."""
    log = _VERBS[init_of(driver)].log
    if not log:
        lines = (line for line in driver.logs(name).splitlines() if line.startswith(service))
        return "\n".join([*lines][-_LOG_LINES:])
    return driver.run(name, [*log, service], timeout_s=COMMAND_BUDGET_S).stdout


def status_command(driver: Driver, name: str, service: Service) -> str:
    """What to type to see how a service of a node is."""
    return f"gpuprov exec {name} -- {' '.join(_VERBS[init_of(driver)].status)} {service}"


def log_command(driver: Driver, name: str) -> str:
    """What to type to read what the services of a node have logged."""
    log = _VERBS[init_of(driver)].log
    return f"gpuprov exec {name} -- journalctl -u slurmctld -u slurmd" if log else f"gpuprov logs {name}"


def give_identity(driver: Driver, name: str) -> None:
    """Give a running copy of a node an ssh host key and a machine id of its own, and no part in its source's Slurm."""
    driver.run(name, ["sh", "-c", _VERBS[init_of(driver)].new_identity], timeout_s=COMMAND_BUDGET_S)
