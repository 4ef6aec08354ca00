"""A cluster `lab` on this machine alone, or over hosts that were added, and somebody who types commands for it."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpuprov.cli.main import main
from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, PartDone, TimedOut, UsageError
from gpuprov.core.names import expand_names
from gpuprov.core.rollback import AGAIN, REPEAT
from gpuprov.drivers.base import LABEL_GPUS, ExecResult
from gpuprov.link.hosts_file import remember_machine
from gpuprov.link.places import ensure_places
from gpuprov.shapes.hardware import Machine
from tests.conftest import Recording
from tests.fakes.hosts_in_worlds import HostsInWorlds, keep_keys_below
from tests.schemas import validate
from tests.unit.machine.hosts import see_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.ask import MemberRequest
    from gpuprov.link.several import HostAnswer
    from tests.fakes.engine import Command
    from tests.fakes.world import World

HOSTS: Final = ("hoff", "hinton", "hopper")
SPEC: Final = "version: gpuprov/v1\nnodes: {count: 3}\ngpus: {mode: simulated}\nshare: false\n"
FACTS: Final = (Path(__file__).parents[1] / "unit/verify/data/simulated.json").read_text()
THEIR_GPU: Final = "GPU-51515151-5151-4151-8151-000000000000"  # of the node whose facts those are
MACHINE: Final = Machine(machine="m", cpu="a CPU", threads=8, gpus=(), simulated=True, reason="no driver")
# What differs with the place of a node: which GPU of its host it has, how many nodes share the host's limits
_PLACES: Final = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}", "GPU"),
        (r"nvidia\d+", "nvidia#"),
        (r"\b\d+ processes|processes = \d+", "# processes"),
        (r"responded in [\d.]+ s", "responded"),
        (r"\d+ nodes? with all data on (its disk|their disks)", "nodes with all data on their disks"),
        (r"^evidence: ", ""),
        (rf"\bon ({'|'.join(HOSTS)}): ", ""),
    )
)
_KINDS: Final = {
    kind.exit_code: kind for kind in (GpuprovError, UsageError, HostNotReady, EngineError, TimedOut, PartDone)
}
_OF_PLACES: Final = frozenset({"host", "seconds", "duration_s"})  # in documents, beside a list of hosts
_FOLDED: Final = re.compile(r"\b[a-z]+\[[\d,-]+\]")
_PHASE: Final = re.compile(r"[a-z ]+ (\.\.\.|(done|failed) \([\d.]+ s\))|durations: .*")


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command said, and with which exit code it ended; lines without the names of hosts.

    Attributes:
        lines: Those of stdout, of a document a line for each value, and of stderr, but for phases.
        phases: What it showed while it worked.
    """

    code: int
    lines: frozenset[str]
    phases: tuple[str, ...]


class HostsOnAWire(HostsInWorlds):
    """What hosts say and refuse comes here as over ssh: with their names, and errors of their kind alone."""

    def reached(self, *, reporter: Reporter, **_: object) -> HostsOnAWire:
        """In place of the way by ssh."""
        self._told = reporter
        return self

    def attach(self, machine: RemoteMachine, command: Sequence[str], *, terminal: bool) -> int:
        """The gpuprov there runs it, whose user has added no hosts."""
        assert not terminal
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", "/nowhere")
            return main(list(command[1:]), host=self.worlds[machine.name].host.called(machine.name))

    def _serve(self, machine: RemoteMachine, request: MemberRequest) -> HostAnswer:
        self._reporter = _Relayed(machine.name, self._told)
        answer = super()._serve(machine, request)
        if answer.error is None or machine.name in self.away | self.outdated:
            return answer
        said = answer.error
        here = not said.fix or said.fix.startswith((AGAIN, REPEAT))
        fix = said.fix if here else f"on {machine.name}: {said.fix}"
        error = _KINDS[said.exit_code](f"{machine.name}: {said.what}", evidence=said.evidence, fix=fix)
        return replace(answer, error=error)


class _Relayed(Recording):
    """What a host says while it works, but for its phases."""

    def __init__(self, host: str, reporter: Reporter) -> None:
        super().__init__()
        self._host, self._reporter = host, reporter

    def note(self, text: str) -> None:
        self._reporter.note(f"{self._host}: {text}")

    def warn(self, text: str) -> None:
        self._reporter.warn(f"{self._host}: {text}")


class TypedCluster:
    """The hosts in fake engines, and the machine at which commands are typed: the one host, or one without an engine.

    Attributes:
        broken: Nodes in which a GPU is another one than that of their lease.
    """

    def __init__(self, folder: Path, recording: Recording, *, hosts: int) -> None:
        folder.mkdir()
        self._folder = folder
        self.hosts = HostsOnAWire(folder, recording, HOSTS[:hosts])
        self.worlds: list[World] = list(self.hosts.worlds.values())
        self.broken: set[str] = set()
        alone = hosts == 1
        self._here = self.worlds[0].host if alone else self.hosts.controller
        for world in self.worlds:
            world.host.looks = see_host
            world.engine.answer = partial(self._answer_probe, world.engine.answer)
        members = [f"- {{name: {name}, internal_ip: 192.0.2.{11 + number}}}\n" for number, name in enumerate(HOSTS)]
        spec = SPEC if alone else f"{SPEC}hosts:\n{''.join(members)}"
        (folder / "SPEC").write_text(spec)
        (folder / "LESS").write_text(spec.replace("count: 3", "count: 2"))
        with pytest.MonkeyPatch.context() as patch:
            keep_keys_below(folder / "data", patch)
            self._enter(patch)
            for machine in () if alone else self.hosts.machines.values():
                remember_machine(ensure_places().inventory, machine)

    def type(self, words: str) -> Said:
        """Run a command; `SPEC` is a file that describes the cluster, and `LESS` one that describes a smaller one."""
        return self.run([self.file(word) if word in ("SPEC", "LESS") else word for word in words.split()])

    def file(self, name: str) -> str:
        """One of those that describe the cluster."""
        return str(self._folder / name)

    def dump(self) -> list[Any]:
        """All that the engines have."""
        return [world.engine.dump() for world in self.worlds]

    def run(self, argv: Sequence[str]) -> Said:
        """Run a command; a document is held to its schema."""
        with pytest.MonkeyPatch.context() as patch:
            self._enter(patch)
            with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
                code = main(list(argv), host=self._here)
        told, besides = out.getvalue(), err.getvalue().splitlines()
        lines = told.splitlines()
        if argv[0] == "--json":
            document = json.loads(told)
            validate(document)
            lines = list(_flatten(document))
        phases = tuple(line.removesuffix(" ...") for line in besides if line.endswith(" ..."))
        said = [*lines, *(line for line in besides if not _PHASE.fullmatch(line))]
        return Said(code=code, lines=frozenset(chain.from_iterable(map(self._placeless, said))), phases=phases)

    def _enter(self, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("XDG_DATA_HOME", str(self._folder / "data"))
        patch.setenv("XDG_CONFIG_HOME", str(self._folder / "config"))
        patch.setattr("gpuprov.link.hosts.HostsBySsh", self.hosts.reached)
        patch.setattr("gpuprov.fleet.questions.hardware.ask_this_machine", lambda: MACHINE)

    def _placeless(self, line: str) -> list[str]:
        """A line of text, or of a table, without the host that it is about: one for each node that it names."""
        for pattern, word in _PLACES:
            line = pattern.sub(word, line)
        line = line.replace(str(self._folder), "")
        hosts = {*self.hosts.worlds, "here", "host", "HOST"}
        line = " ".join(word for word in line.split() if word.rstrip(":") not in hosts)
        folded = _FOLDED.search(line)
        names = expand_names(folded.group()) if folded else ()
        return [_FOLDED.sub(name, line, count=1) for name in names] or [line] * bool(line)

    def _answer_probe(self, honest: Callable[[Command], ExecResult], command: Command) -> ExecResult:
        """As a healthy node does; all else is answered as before."""
        if '"denied"' not in command.argv[-1]:
            return honest(command)
        asked, node = json.loads(command.argv[-1]), command.node
        own = "GPU-other" if node.name in self.broken else node.labels[LABEL_GPUS]
        facts = json.loads(FACTS.replace("c001", node.name).replace(THEIR_GPU, own))
        facts["devices"] = {
            path: {"kind": "char", "major": major, "minor": minor, "open": "ENXIO"}
            for path, major, minor in asked["devices"]
        }
        facts["mknod"] = [{"minor": m, "folder": "/dev", "mknod": "EPERM", "open": None} for m in asked["denied"]]
        facts["network"] = {nic: {"reached": to, "missing": []} for nic, to in asked["network"].items()}
        return ExecResult(exit_code=0, stdout=json.dumps(facts), stderr="")


def _flatten(value: Any, path: str = "") -> Iterator[str]:
    """A line for each value of a document, but for how long it took."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key not in _OF_PLACES and (path or key != "hosts"):
                yield from _flatten(below, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for below in value:
            names = [below[key] for key in ("name", "node", "id") if isinstance(below, dict) and key in below]
            yield from _flatten(below, f"{path}[{''.join(map(str, names[:1]))}]")
    else:
        yield from (f"{path} = {line}" for line in str(value).splitlines() or [""])
