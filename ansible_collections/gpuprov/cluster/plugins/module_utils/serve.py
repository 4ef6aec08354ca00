"""What every module shares: gpuprov is found or missed with words, its errors end the module in their three parts."""

from __future__ import annotations

import atexit
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuprov.fleet.fleet import Fleet
    from gpuprov.lifecycle.before_after import BeforeAfter
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import HostsBySsh
    from gpuprov.shapes.gpu_order import GpuOrder
    from gpuprov.shapes.verify import Report

    Results = dict[str, Any]

ENGINE: dict[str, Any] = {"type": "str", "choices": ["lxd", "incus", "docker"]}
ROLE: dict[str, Any] = {"type": "str", "choices": ["plain", "slurm", "worker"]}
FORCE: dict[str, Any] = {"type": "bool", "default": False}
GPU_MODE: dict[str, Any] = {"type": "str", "choices": ["auto", "real", "simulated"]}
try:
    from gpuprov.spec.gpu_order import CRITERIA
except ImportError as missing:  # every module then ends with these words
    GPU_CRITERIA: dict[str, Any] = {}
    MISSING = str(missing)
else:
    GPU_CRITERIA = {told.argument: {"type": "str"} for told in CRITERIA.values()}
    MISSING = ""
NO_GPUPROV = """gpuprov is not installed for the Python that runs this module
evidence: {python}: {error}
fix: set ansible_python_interpreter to a Python that has it; on the controller: '{{{{ ansible_playbook_python }}}}'"""
Wanted = TypeVar("Wanted", bound=str)


class ModuleReporter:
    """A gpuprov Reporter that hands warnings to Ansible; what a module does is in its result."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:  # noqa: ARG002 - the protocol's signature
        """Say nothing."""
        yield

    def node(self, name: str, state: str) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def warn(self, text: str) -> None:
        """Show it as one of Ansible's warnings."""
        self._module.warn(text)


class Module(AnsibleModule):  # type: ignore[misc]  # Ansible has no type information
    """An AnsibleModule whose every failure has three parts, also Ansible's own words for a wrong parameter."""

    def fail_json(self, msg: str, **results: Any) -> NoReturn:  # noqa: ANN401 - a result's values
        """End the module."""
        if MISSING:
            msg = NO_GPUPROV.format(python=sys.executable, error=MISSING)
        if "fix" not in results and "\nfix: " not in msg:
            name = f"gpuprov.cluster.{self._name.rpartition('.')[2]}"
            parts = {"what": msg, "evidence": f"{name} was given: {', '.join(sorted(self.params)) or 'nothing'}"}
            results |= {**parts, "fix": f"ansible-doc {name}"}
            msg = f"{msg}\nevidence: {results['evidence']}\nfix: {results['fix']}"
        super().fail_json(msg=msg, **results)
        raise AssertionError  # pragma: no cover - it has ended


def serve(module: Module, act: Callable[[], Results]) -> None:
    """Run the module's work and end the process with its results, or with gpuprov's error."""
    if MISSING:
        module.fail_json(msg=MISSING)
    from gpuprov.core.error_document import error_parts
    from gpuprov.core.errors import GpuprovError

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # being ended undoes what was begun, as Ctrl-C does
    try:
        results = act()
    except GpuprovError as error:
        module.fail_json(msg=str(error), **error_parts(error))
    except KeyboardInterrupt:
        module.fail_json(msg="interrupted; the changes of this run were undone")
    module.exit_json(**results)


def asked_gpus(wanted: Mapping[str, Any], per_node: str) -> GpuOrder:
    """What the arguments say of GPUs; C(per_node) is the one that says how many or which."""
    from gpuprov.shapes.gpu_order import GpuOrder
    from gpuprov.spec.gpu_order import read_criteria

    criteria = read_criteria(wanted, lambda criterion: f"{criterion.argument}:")
    return GpuOrder(per_node=wanted[per_node], sharing=wanted["sharing"], **criteria)


def ask_by_ssh(reporter: ModuleReporter) -> tuple[Mapping[str, RemoteMachine], HostsBySsh]:
    """The hosts that C(gpuprov host add) has remembered for this user, and how they are asked."""
    from gpuprov.link.hosts import HostsBySsh
    from gpuprov.link.hosts_file import read_machines
    from gpuprov.link.members import MemberProcesses
    from gpuprov.link.places import ensure_places

    places = ensure_places()
    members = MemberProcesses(places)
    atexit.register(members.close)
    return read_machines(places.inventory), HostsBySsh(members=members, reporter=reporter)


def fleet_of(module: Module, engine: str | None = None) -> Fleet:
    """This machine and the hosts that this user has added, or the engine of this machine that is said."""
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.machine.local import LocalHost

    listener = ModuleReporter(module)
    known, hosts = ask_by_ssh(listener)
    others = {} if engine else known
    return Fleet(here=LocalHost(), others=others, connect=lambda: hosts, reporter=listener, engine=engine or "")


def present(result: BeforeAfter, *, diff: bool) -> Results:
    """The results of a module that changes nodes."""
    results: Results = {"changed": bool(result.changed), "changes": list(result.changed)}
    if diff:
        results["diff"] = diff_of(result.changed)
    return results


def diff_of(changes: Sequence[str]) -> dict[str, str]:
    """The changes as Ansible's `--diff` shows them."""
    return {"prepared": "".join(f"{line}\n" for line in changes)}


def failed_verification(report: Report) -> Results:
    """The results of a module that ends because a check failed, in three parts."""
    from gpuprov.verify.report import problem_lines, summary

    problems = [node.problem for node in report.places if node.problem is not None]
    parts = {
        "what": summary(report),
        "evidence": "\n".join(line for line in problem_lines(report) if not line.startswith("  fix")),
        "fix": (problems[0].fix if problems else None) or "gpuprov verify",
    }
    words = f"{parts['what']}\nevidence: {parts['evidence']}\nfix: {parts['fix']}"
    return {"failed": True, "msg": words, **parts}
