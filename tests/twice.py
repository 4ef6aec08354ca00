"""What the second run of every verb must be; a verb that is not in this table fails the tests of it.

Each line is tried on two Slurm nodes: `{p}000` and `{p}001` of cluster `{cluster}`, whose spec is `{spec}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["changes", "ensures", "acts", "reads"]
Argv = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Twice:
    """A verb.

    Attributes:
        kind: `changes`: the first run changes something and the second says `unchanged`; `ensures`: so does the second,
            whatever the first found; `acts`: it does the same again each time, which is what it is for; `reads`: it
            changes nothing at all.
        argv: The command.
        before: Commands that make the case.
        after: Commands that take it away again.
        where: Which tests can try it; `real` needs a machine, `fake` would disturb one.
    """

    kind: Kind
    argv: Argv
    before: tuple[Argv, ...] = ()
    after: tuple[Argv, ...] = ()
    where: tuple[Literal["fake", "real"], ...] = ("fake", "real")

    def with_names(self, names: Mapping[str, str]) -> Twice:
        """The same with its placeholders filled in."""

        def fill(argv: Argv) -> Argv:
            return tuple(word.format_map(names) for word in argv)

        filled: dict[str, Any] = {"before": tuple(map(fill, self.before)), "after": tuple(map(fill, self.after))}
        return Twice(kind=self.kind, argv=fill(self.argv), where=self.where, **filled)


_COMPOSE = str(Path(__file__).parents[1] / "examples/stack/compose.yaml")
_SIMULATED = ("--gpu-mode", "simulated")
_UP = ("cluster", "up", "-f", "{spec}", "--no-verify")
_PLAIN = ("--cluster", "{cluster}", "--role", "plain", *_SIMULATED)
_EXPOSED = ("{p}001", "8080", "--port", "17003")

_TRAIN = ("run", "--name", "train", "--detach", "--engine", "lxd", "--image", "gpuprov-image-plain", "--", "true")

TWICE: dict[str, Twice] = {
    "create-node": Twice(
        kind="changes", argv=("create-node", "{p}-web", *_PLAIN, "--gpus", "2"), after=(("rm", "{p}-web"),)
    ),
    "cluster up": Twice(kind="changes", argv=_UP, before=(("cluster", "down", "{cluster}", "--yes"),)),
    "cluster down": Twice(kind="changes", argv=("cluster", "down", "{cluster}", "--yes"), after=(_UP,)),
    "cluster save": Twice(kind="acts", argv=("cluster", "save", "lab.tar"), where=()),  # tests/unit/cli/test_saved.py
    "cluster restore": Twice(kind="acts", argv=("cluster", "restore", "lab.tar"), where=()),  # the same
    "person add": Twice(
        kind="changes",
        argv=("person", "add", "ann", "--cluster", "{cluster}"),
        after=(("person", "rm", "ann", "--cluster", "{cluster}"),),
    ),
    "person list": Twice(kind="reads", argv=("person", "list", "--cluster", "{cluster}")),
    "person set": Twice(
        kind="changes",
        argv=("person", "set", "eve", "--account", "vision", "--cluster", "{cluster}"),
        before=(("person", "add", "eve", "--cluster", "{cluster}"),),
        after=(("person", "rm", "eve", "--cluster", "{cluster}"),),
    ),
    "person rm": Twice(
        kind="changes",
        argv=("person", "rm", "bob", "--cluster", "{cluster}"),
        before=(("person", "add", "bob", "--cluster", "{cluster}"),),
    ),
    "start": Twice(kind="changes", argv=("start", "{p}001"), before=(("stop", "{p}001"),)),
    "stop": Twice(kind="changes", argv=("stop", "{p}001"), after=(("start", "{p}001"),)),
    "rm": Twice(kind="changes", argv=("rm", "{p}-old"), before=(("create-node", "{p}-old", *_PLAIN),)),
    "clone": Twice(
        kind="changes",
        argv=("clone", "{p}-src", "{p}-copy", *_SIMULATED),
        before=(("create-node", "{p}-src", *_PLAIN), ("stop", "{p}-src")),
        after=(("rm", "{p}-src", "{p}-copy"),),
    ),
    "snapshot": Twice(kind="changes", argv=("snapshot", "{p}001", "kept")),
    "restore": Twice(kind="acts", argv=("restore", "{p}001", "old"), before=(("snapshot", "{p}001", "old"),)),
    "expose": Twice(kind="changes", argv=("expose", *_EXPOSED), after=(("unexpose", "{p}001", "17003"),)),
    "unexpose": Twice(kind="changes", argv=("unexpose", "{p}001", "17003"), before=(("expose", *_EXPOSED),)),
    "image build": Twice(kind="ensures", argv=("image", "build", "--role", "slurm", *_SIMULATED)),
    "image rm": Twice(kind="changes", argv=("image", "rm", "gpuprov-image-plain"), where=("fake",)),
    "host add": Twice(kind="ensures", argv=("host", "add", "hoff"), where=()),  # tests/unit/stories/test_add_host.py
    "host remove": Twice(kind="changes", argv=("host", "remove", "hoff"), where=()),  # the same
    "host list": Twice(kind="reads", argv=("host", "list"), where=()),  # tests/unit/cli/test_hosts.py
    "host show": Twice(kind="reads", argv=("host", "show", "hoff"), where=()),  # the same
    "host prepare": Twice(kind="ensures", argv=("host", "prepare"), where=("real",)),
    "host undo": Twice(kind="changes", argv=("host", "undo"), where=()),  # tests/e2e/test_bare_host.py
    "host mig export": Twice(kind="reads", argv=("host", "mig", "export", *_SIMULATED)),
    # tests/unit/lifecycle/test_mig.py
    "host mig assert": Twice(kind="reads", argv=("host", "mig", "assert", "mig.yaml"), where=()),
    "host mig apply": Twice(kind="changes", argv=("host", "mig", "apply", "mig.yaml"), where=()),
    # tests/e2e/test_gate.py
    "gate up": Twice(kind="ensures", argv=("gate", "up"), where=()),
    "gate down": Twice(kind="changes", argv=("gate", "down"), where=()),
    "gate status": Twice(kind="reads", argv=("gate", "status"), where=()),
    "gate check": Twice(kind="reads", argv=("gate", "check"), where=()),
    "gate explain": Twice(kind="reads", argv=("gate", "explain", "--", "docker", "run", "image"), where=()),
    "play": Twice(kind="changes", argv=("play", "{play}", "--cluster", "{cluster}"), where=("real",)),
    "cluster plan": Twice(kind="reads", argv=("cluster", "plan", "--name", "{cluster}")),
    "cluster list": Twice(kind="reads", argv=("cluster", "list")),
    "cluster status": Twice(kind="reads", argv=("cluster", "status", "{cluster}")),
    "cluster spec": Twice(kind="reads", argv=("cluster", "spec", "{cluster}")),
    "gpus": Twice(kind="reads", argv=("gpus", *_SIMULATED)),
    "run": Twice(kind="acts", argv=("run", "--", "true"), where=()),  # tests/e2e/test_gpus.py
    "run ps": Twice(kind="reads", argv=("run", "ps")),
    "run logs": Twice(kind="reads", argv=("run", "logs", "train"), where=()),  # tests/unit/cli/test_run.py
    "run stop": Twice(
        kind="changes",
        argv=("run", "stop", "train"),
        before=(_TRAIN,),
        after=(("run", "rm", "train"),),
        where=("fake",),
    ),
    "run rm": Twice(kind="changes", argv=("run", "rm", "--force", "train"), before=(_TRAIN,), where=("fake",)),
    "list": Twice(kind="reads", argv=("list", "--all")),
    "show": Twice(kind="reads", argv=("show", "{p}000")),
    # tests/unit/cli/test_submit.py: a cluster of `cluster up` has no shared folder for jobs
    "submit": Twice(kind="acts", argv=("submit", "--no-project", "--", "true"), where=()),
    "jobs": Twice(kind="reads", argv=("jobs",), where=()),
    "jobs show": Twice(kind="reads", argv=("jobs", "show", "1"), where=()),
    "jobs logs": Twice(kind="reads", argv=("jobs", "logs", "1"), where=()),
    "jobs cancel": Twice(kind="acts", argv=("jobs", "cancel", "1"), where=()),
    "jobs rm": Twice(kind="acts", argv=("jobs", "rm", "1", "--yes"), where=()),
    "jobs pull": Twice(kind="acts", argv=("jobs", "pull", "1"), where=()),
    "jobs wait": Twice(kind="reads", argv=("jobs", "wait", "1"), where=()),
    "usage": Twice(kind="reads", argv=("usage",), where=()),
    "queue page": Twice(kind="reads", argv=("queue", "page"), where=()),  # tests/unit/cli/test_queue_page.py
    "rest": Twice(kind="reads", argv=("rest",), where=()),  # tests/unit/cli/test_rest.py
    "token": Twice(kind="reads", argv=("token",), where=()),
    # tests/unit/cli/test_grid.py
    "grid run": Twice(kind="acts", argv=("grid", "run", "."), where=()),
    "grid status": Twice(kind="reads", argv=("grid", "status", "."), where=()),
    "grid results": Twice(kind="reads", argv=("grid", "results", "."), where=()),
    "grid pull": Twice(kind="acts", argv=("grid", "pull", "."), where=()),
    "grid cancel": Twice(kind="acts", argv=("grid", "cancel", "."), where=()),
    # tests/unit/cli/test_anneal.py
    "anneal check": Twice(kind="reads", argv=("anneal", "check", "model.py"), where=()),
    "anneal run": Twice(kind="acts", argv=("anneal", "run", "model.py"), where=()),
    # tests/unit/cli/test_program.py
    "program check": Twice(kind="reads", argv=("program", "check", "."), where=()),
    "program run": Twice(kind="acts", argv=("program", "run", "."), where=()),
    "program list": Twice(kind="reads", argv=("program", "list"), where=()),
    "program rm": Twice(kind="acts", argv=("program", "rm", "0123456"), where=()),
    "program page": Twice(kind="reads", argv=("program", "page"), where=()),
    "hardware": Twice(kind="reads", argv=("hardware",), where=()),
    "cp": Twice(kind="acts", argv=("cp", "/etc/hostname", "{p}001:/tmp/")),
    "logs": Twice(kind="reads", argv=("logs", "{p}000")),
    "example lab": Twice(kind="changes", argv=("example", "lab"), where=()),  # tests/unit/cli/test_example.py
    "example program": Twice(kind="changes", argv=("example", "program"), where=()),  # the same
    "inventory": Twice(kind="reads", argv=("inventory",)),
    "image list": Twice(kind="reads", argv=("image", "list")),
    "explain": Twice(kind="reads", argv=("explain", "slurm-job")),
    "kubernetes manifests": Twice(kind="reads", argv=("kubernetes", "manifests", _COMPOSE)),
    "completion": Twice(kind="reads", argv=("completion", "bash")),
    "verify": Twice(kind="reads", argv=("verify", "--cluster", "{cluster}"), where=("real",)),
    "doctor": Twice(kind="reads", argv=("doctor",), where=("real",)),
    "cdi": Twice(kind="reads", argv=("cdi", *_SIMULATED), where=("real",)),
    "record": Twice(kind="reads", argv=("record",), where=("real",)),
    "bundle": Twice(kind="reads", argv=("bundle",), where=("real",)),
    "smoke": Twice(
        kind="acts", argv=("smoke", "matmul", "{p}000", "--cluster", "{cluster}", "--size", "64"), where=("real",)
    ),
    "exec": Twice(kind="acts", argv=("exec", "{p}000", "--", "true"), where=("real",)),
    "ssh": Twice(kind="acts", argv=("ssh", "{p}000", "true"), where=("real",)),
    "shell": Twice(kind="acts", argv=("shell", "{p}000"), where=()),  # a terminal; what is typed there acts
}
