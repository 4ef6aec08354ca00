"""A Slurm in memory, as the commands in nodes show it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.cluster.people_files import SETTLE
from gpuprov.core.names import expand_names
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.slurm.words import DRAINED, FORMAT
from tests.fakes.engine import succeed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.engine import Command, FakeEngine, FakeNode

CONF = "/etc/slurm/slurm.conf"
MARK = "/etc/slurm/controller"
MUNGE_KEY = "/etc/munge/munge.key"
# Made of chance in each cluster, or following from what is
OF_CHANCE = (
    MUNGE_KEY,
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ecdsa_key.pub",
    "/etc/ssh/ssh_known_hosts",
)
_STATES = {"PD": "pending", "R": "running", "CG": "completing"}


@dataclass(kw_only=True)
class FakeJob:
    """A job; `client` is the host of its srun, and a job that has one is no batch job."""

    id: str
    nodes: str = ""
    state: str = "R"
    user: str = "alice"
    name: str = "train"
    client: str = ""


@dataclass(kw_only=True)
class Drain:
    """That no jobs start on a node, by whom and why; `down` is kept apart."""

    reason: str
    user: str = "root"


class SlurmInNodes:
    """What a node's commands say: checksums of its files, and a Slurm that knows the nodes of its configuration.

    Attributes:
        jobs: By node, the number of a job that runs there; a short way to say `queue`.
        queue: All jobs.
        drains: By node, why it is drained.
        down: Nodes that somebody marked DOWN, until their daemon registers.
        reasons: Why, of those that are not drained.
        unregistered: How many updates are refused, as while nodes have not registered with a new controller.
        token: What it makes as one.
        silent: Nodes whose slurmd does not respond.
        unnoticed: Those of which Slurm has not noticed it yet.
        broken: Whether the controller does not respond.
        on_drain: Called with the nodes that are being drained, once they are.
    """

    def __init__(self, engine: FakeEngine) -> None:
        self.jobs: dict[str, str] = {}
        self.queue: list[FakeJob] = []
        self.drains: dict[str, Drain] = {}
        self.down: set[str] = set()
        self.reasons: dict[str, Drain] = {}
        self.silent: set[str] = set()
        self.token = "eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJ3b3JrIn0.c2lnbmVk"
        self.unnoticed: set[str] = set()
        self.broken = False
        self.unregistered = 0
        self.on_drain: Callable[[tuple[str, ...]], object] = lambda _names: None
        self.on_look: Callable[[], object] = lambda: None
        self.cancelled: list[str] = []
        self.restarted: list[tuple[str, str]] = []
        self.asked: list[str] = []  # in which node each question was put, and each command
        self.settled: list[tuple[str, str]] = []  # controllers, and the restart that came next
        self.stopped: set[str] = set()  # nodes whose slurmctld was stopped
        self.said: dict[str, str] = {}  # what shell lines with these words print
        self.read: dict[str, bytes] = {}  # the configuration that the daemons of a node have read
        self._engine = engine
        self._settling = ""

    def __call__(self, command: Command) -> ExecResult:
        argv = command.argv
        if argv[:2] == ("sh", "-c"):
            return self._shell(command)
        if argv[:2] in (("systemctl", "stop"), ("systemctl", "is-active")):
            self.stopped |= {command.node.name} if argv[1] == "stop" else set()
            return said("inactive" if command.node.name in self.stopped else "active")
        if argv[:2] == ("systemctl", "restart"):
            self.restarted.append((command.node.name, argv[2]))
            if self._settling:
                self.settled.append((self._settling, argv[2]))
                self._settling = ""
            self.broken = self.broken and argv[2] != "slurmctld"
            self.start(command.node)
            return said("")
        commands = {
            "sinfo": self._sinfo,
            "squeue": self._squeue,
            "scontrol": self._scontrol,
            "scancel": self._scancel,
            "runuser": succeed,  # the REST API, which hears nothing
        }
        if argv[0] not in commands:
            return said("") if argv[0] == SETTLE else said(f"{argv[0]}: not found", exit_code=127)
        self.asked.append(command.node.name)
        if self.broken:
            return ExecResult(exit_code=1, stdout="", stderr=f"{argv[0]}: Unable to contact slurm controller\n")
        return commands[argv[0]](command)

    def forget_runs(self) -> None:
        """The processes of gpuprov that drained nodes are gone."""
        for drain in self.drains.values():
            if drain.reason.startswith(DRAINED):
                drain.reason = f"{drain.reason.rpartition(' ')[0]} 0"  # such a process began at another time

    def start(self, node: FakeNode) -> None:
        """The daemons of a node start: they read what is there now, and register."""
        self.stopped.discard(node.name)
        self.down.discard(node.name)
        self.reasons.pop(node.name, None)
        if CONF in node.files:
            self.read[node.name] = node.files[CONF].content
        if MARK in node.files:
            known = self._configured(node.name)
            self.drains = {name: drain for name, drain in self.drains.items() if name in known}

    def _shell(self, command: Command) -> ExecResult:
        argv = command.argv
        if "sha256sum" in argv[2]:
            present = [(path, command.node.files.get(path)) for path in argv[4:]]
            sums = [f"{hashlib.sha256(file.content).hexdigest()}  {path}" for path, file in present if file]
            sums += [f"{file.mode:o} {file.uid}:{file.gid} {path}" for path, file in present if file]
            return said("\n".join(sums), exit_code=int(len(sums) < 2 * len(present)))
        for words, text in self.said.items():
            if words in argv[2]:
                return said(text)
        if "sdiag" in argv[2]:
            self._settling = command.node.name
        if argv[2].startswith(f"[ -e {MARK} ]"):
            self._engine.nodes[command.node.name].files.pop(MARK, None)
        if "sinfo" in argv[2]:
            self.asked.append(command.node.name)
            return said("", exit_code=1) if self.broken else self._sinfo(command)
        if "/dev/tcp/" in argv[2]:
            return said("\n".join(name for name in argv[4:] if name in self.unnoticed or self._is_away(name)))
        if "slurmstepd" in argv[2]:
            here = [job.id for job in self._all() if job.nodes and command.node.name in expand_names(job.nodes)]
            return said("\n".join(f"slurmstepd: [{number}.batch] " for number in here))
        return said("")

    def _configured(self, name: str) -> list[str]:
        return re.findall(r"^NodeName=(\S+)", self.read.get(name, b"").decode(), re.MULTILINE)

    def _all(self) -> list[FakeJob]:
        return [*self.queue, *(FakeJob(id=number, nodes=name) for name, number in self.jobs.items())]

    def _sinfo(self, command: Command) -> ExecResult:
        lines = []
        for name in self._configured(command.node.name):
            drain = self.drains.get(name) or self.reasons.get(name) or Drain(reason="none", user="Unknown")
            lines.append(FORMAT.replace("%N", name).replace("%T", self._state(command, name)))
            lines[-1] = lines[-1].replace("%v", "22.05.8").replace("%u", drain.user).replace("%E", drain.reason)
        return said("\n".join(lines))

    def _is_away(self, name: str) -> bool:
        node = self._engine.nodes.get(name)
        return node is None or node.status != "running" or name in self.silent

    def _state(self, command: Command, name: str) -> str:
        away = self._is_away(name)
        if name in self.drains:
            return "drained*" if away else "drained"
        if away or name in self.down:
            return "down*" if away else "down"
        return "idle" if self.read.get(name) == self.read[command.node.name] else "inval"

    def _squeue(self, command: Command) -> ExecResult:
        self.on_look()
        states = command.argv[command.argv.index("-t") + 1].split(",")
        lines = [
            f"{job.id:32}{job.state:4}{'0' if job.client else '1':2}{job.client or 'c000':64}"
            f"{job.user:32}{job.nodes:160}{'(null)':40}{job.name[:40]:40}"
            for job in self._all()
            if _STATES[job.state] in states
        ]
        return said("\n".join(lines))

    def _scontrol(self, command: Command) -> ExecResult:
        values = dict(word.split("=", 1) for word in command.argv[2:])
        if command.argv[1] == "token":
            return said(f"SLURM_JWT={self.token}")
        names = tuple(values["nodename"].split(","))
        if not set(names) <= set(self._configured(command.node.name)):
            return ExecResult(exit_code=1, stdout="", stderr="slurm_update error: Invalid node name specified\n")
        if values["state"] == "drain":
            self.drains |= {name: Drain(reason=values["reason"]) for name in names}
            self.on_drain(names)
        elif values["state"] == "down":
            self.down |= set(names)
            self.reasons |= {name: Drain(reason=values["reason"]) for name in names}
            for name in set(names) & set(self.drains):
                self.drains[name].reason = values["reason"]
            self._end_on(names)
        elif self.unregistered:
            self.unregistered -= 1
            return ExecResult(exit_code=1, stdout="", stderr="slurm_update error: Invalid node state specified\n")
        else:
            assert values["state"] in ("resume", "undrain")
            for name in names:
                self.drains.pop(name, None)
                self.reasons.pop(name, None)
            self.down -= set(names) if values["state"] == "resume" else set()
        return said("")

    def _end_on(self, names: tuple[str, ...]) -> None:
        """As Slurm does it: batch jobs are queued again, the others end."""
        ended = [job for job in self._all() if job.nodes and set(expand_names(job.nodes)) & set(names)]
        self.jobs = {name: number for name, number in self.jobs.items() if number not in [job.id for job in ended]}
        self.queue = [job for job in self.queue if job not in ended]
        again = [FakeJob(id=job.id, user=job.user, name=job.name, state="PD") for job in ended if not job.client]
        self.queue += again

    def _scancel(self, command: Command) -> ExecResult:
        gone = command.argv[1:]
        self.cancelled += gone
        self.queue = [job for job in self.queue if job.id not in gone]
        self.jobs = {name: number for name, number in self.jobs.items() if number not in gone}
        return said("")


def said(text: str, *, exit_code: int = 0) -> ExecResult:
    """What a command prints."""
    return ExecResult(exit_code=exit_code, stdout=f"{text}\n" if text else "", stderr="")
