"""What Slurm's daemons in the nodes are asked and told."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster import services
from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.core.excerpt import excerpt
from gpuprov.core.printable import printable
from gpuprov.core.side_by_side import ask_side_by_side, each
from gpuprov.core.silence_limit import more_time, scaled_limit_s
from gpuprov.core.waiting import Wait
from gpuprov.roles.slurm.facts import ready_states, settling_script, slurm_path
from gpuprov.roles.slurm.words import FORMAT, parse_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.provision.role_recipe import Init
    from gpuprov.roles.slurm.words import NodeWord

DAEMONS = ("slurmctld", "slurmd")
UNKNOWN = "unknown to Slurm"
UNREGISTERED = "not registered with Slurm"
_SHOWN = 200
_MOST_LOGS = 3
_MOST_ERRORS = 3
_READY_BUDGET_S = 90.0  # for the next of the nodes
_SETTLE_BUDGET_S = 30.0
_LOG_BUDGET_S = 5.0
# The host's lock is held meanwhile. A healthy controller answers in well under a second, and where there is none,
# Slurm's commands give up after ten.
ANSWER_BUDGET_S = 15.0
# While there is no controller yet, sinfo asks again a second later, and for ten seconds; ping ends at once. A backup
# that waits for its controller answers ping, and sinfo asks it again only after SlurmctldTimeout / 2.
_STATES = f"""said=$(scontrol ping 2>/dev/null) || exit
case $said in *"(primary)"*DOWN*backup*) set timeout 10 ;; *) set env ;; esac
exec "$@" sinfo -h -N -o '{FORMAT}'"""
# A backup that waits starts no jobs: what it would settle is the queue of the node that does.
_IN_CONTROL = "scontrol ping | grep -q '(primary).* is DOWN' || exit 0"
_STOP: Mapping[Init, str] = {
    "systemd": "systemctl stop slurmctld.service",
    "runit": "[ ! -d /etc/service/slurmctld ] || sv down slurmctld",
}


def node_words(driver: Driver, controller: str) -> dict[str, NodeWord]:
    """What Slurm says of each node; empty while the controller does not answer."""
    result = driver.run(controller, ["sh", "-c", _STATES], timeout_s=ANSWER_BUDGET_S)
    return {} if result.exit_code else parse_words(result.stdout)


def wait_ready(
    driver: Driver, controller: str, names: Sequence[str], reporter: Reporter
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Wait until every node that nobody drained has registered with Slurm, and takes jobs.

    Returns:
        Each node's last state, and the nodes that a killed run had drained.

    Raises:
        TimedOut: With each node's last state.
    """
    released: list[str] = []
    left: dict[str, NodeWord] = {}

    def observe() -> dict[str, str]:
        words = node_words(driver, controller)
        left_so = (name for name in names if name in words)  # their hosts answer: those marked as away are back
        held = [name for name in left_so if words[name].own or words[name].abandoned or words[name].away]
        if held:
            with suppress(EngineError):  # Slurm refuses it for nodes that have not registered with it yet
                resume(driver, controller, held)
                released.extend(name for name in held if words[name].abandoned)
                words = node_words(driver, controller)
        left.clear()
        left.update({name: words[name] for name in names if name in words and words[name].kept})
        states = {name: _state(words.get(name)) for name in names}
        for name, state in states.items():
            reporter.node(name, state)
        return states

    log = services.log_command(driver, controller, DAEMONS)
    wait = Wait(
        what=f"Slurm to be ready on {len(names)} nodes",
        timeout_s=scaled_limit_s(_READY_BUDGET_S),
        fix=f"gpuprov exec {controller} -- sinfo -R; {log}; {more_time()}",
    )
    unready: list[str] = []

    def ready(states: dict[str, str]) -> bool:
        unready[:] = [name for name, state in states.items() if name not in left and state not in ready_states()]
        return not unready

    try:
        states = wait.until(observe, ready, undone=lambda: len(unready))
    except TimedOut as error:
        said = _errors_of([(controller, "slurmctld"), *((name, "slurmd") for name in unready[:_MOST_LOGS])], driver)
        raise TimedOut(error.what, evidence="\n".join([error.evidence, *said]), fix=error.fix) from error
    for name, word in left.items():
        reason = printable(f"{word.reason[:_SHOWN]} (set by {word.user})", lines=False)
        reporter.warn(
            f"{name} is {word.state} and starts no jobs: {reason}; "
            f"to resume it: gpuprov exec {controller} -- scontrol update nodename={name} state=resume"
        )
    return states, tuple(released)


def _state(word: NodeWord | None) -> str:
    """Slurm's, but of a node that it takes for ready too early."""
    if word is None:
        return UNKNOWN
    return word.state if word.registered or word.state not in ready_states() else UNREGISTERED


def _errors_of(daemons: Iterable[tuple[str, str]], driver: Driver) -> list[str]:
    """The last errors in the logs of daemons, of those that can be read; asked side by side, as some may hang."""

    def read(node: str, daemon: str) -> list[str]:
        tail = ["tail", "-n", "50", f"/var/log/slurm/{daemon}.log"]
        with suppress(EngineError, TimedOut):
            log = driver.run(node, tail, timeout_s=_LOG_BUDGET_S).stdout
            return [f"{daemon} on {node}: {line}" for line in parse_errors(log)]
        return []

    questions = [partial(read, node, daemon) for node, daemon in daemons]
    return [line for lines in ask_side_by_side(questions, workers=len(questions)) for line in lines]


def parse_errors(log: str) -> list[str]:
    """The last errors that one of Slurm's daemons logged; root in the node may have written anything there."""
    lines = [line for line in log.splitlines() if " error: " in line or " fatal: " in line]
    return [excerpt(line) for line in dict.fromkeys(lines[-_MOST_ERRORS:])]


def resume(driver: Driver, controller: str, names: Sequence[str]) -> None:
    """Have nodes that run take jobs again.

    `state=resume` is for those that are DOWN as well: Slurm takes a node for silent after it, until the next ping.

    Raises:
        EngineError: Slurm refused.
    """
    run_slurm(driver, controller, ["scontrol", "update", f"nodename={','.join(names)}", "state=undrain"])
    words = node_words(driver, controller)
    down = [name for name in names if name in words and words[name].state.startswith("down")]
    if down:
        run_slurm(driver, controller, ["scontrol", "update", f"nodename={','.join(down)}", "state=resume"])


def run_slurm(driver: Driver, controller: str, argv: Sequence[str]) -> str:
    """Run one of Slurm's commands on the controller, and return what it prints.

    Raises:
        EngineError: It failed.
        TimedOut: It did not answer.
    """
    result = driver.run(controller, argv, timeout_s=ANSWER_BUDGET_S)
    if result.exit_code:
        said = (result.stderr or result.stdout).strip()[-1000:] or f"exit status {result.exit_code}"
        raise EngineError(
            f"`{argv[0]}` failed on {controller}, which runs Slurm's controller",
            evidence=printable(said),
            fix=services.status_command(driver, controller, "slurmctld"),
        )
    return result.stdout


def restart_daemons(driver: Driver, controllers: Sequence[str], names: Iterable[str], *, usual: str) -> None:
    """Make running daemons read changed files; jobs go on, as slurmd's steps outlive it, and none is lost at its start.

    slurmctld comes first: a slurmd that asks about nodes its controller does not know is refused.

    Args:
        controllers: Those that run slurmctld, in Slurm's order.
        names: Those whose slurmd is to read the files.
        usual: The node of which the others are backups.

    Raises:
        EngineError: A daemon did not come back.
    """
    names = list(names)
    each(lambda name: _give_up(driver, name), [name for name in names if name not in controllers])
    for number, controller in enumerate(controllers):
        if not number:
            script = settling_script() if controller == usual else f"{_IN_CONTROL}\n{settling_script()}"
            with suppress(EngineError, TimedOut):  # a controller that does not answer starts no jobs
                driver.run(controller, ["sh", "-c", script], timeout_s=_SETTLE_BUDGET_S)
        services.restart_well(driver, controller, "slurmctld")
    each(lambda name: services.restart_well(driver, name, "slurmd"), names)


def forget_script(init: Init) -> str:
    """Shell lines by which a node is no controller any more."""
    return f"rm -f {slurm_path('controller_mark')}\n{_STOP[init]}"


def _give_up(driver: Driver, name: str) -> None:
    """A node that ran slurmctld and is not to run it now would try to do so again and again."""
    script = f"[ -e {slurm_path('controller_mark')} ] || exit 0\n{forget_script(services.init_of(driver))}"
    driver.run(name, ["sh", "-c", script], timeout_s=services.COMMAND_BUDGET_S)
