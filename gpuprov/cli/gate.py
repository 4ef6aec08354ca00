"""GPUs for containers that gpuprov does not start: gate up, down, status, check, explain."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.shapes.gate import Gate, GateExplanation, GpusOption

_GPUS_OPTION: Final[Mapping[GpusOption, str]] = {
    "works": "works",
    "after a restart": "works after: systemctl restart docker",
    "of NVIDIA": "works, by NVIDIA's hook",
    "absent": "works after: sudo gpuprov gate up",
}


@command(
    click.option("--default", is_flag=True, help="Also run containers that name no runtime; without GPUs as before."),
    click.option("--policy", metavar="FILE", help="What containers get and may not have (docs/gate.md); `none` "
                 "removes it.  [default: that of the last time]"),
)  # fmt: skip
def up(session: Session, *, default: bool, policy: str | None) -> Outcome:
    """Have Docker know the runtime `gpuprov`, which leases GPUs to any container that asks for some. Needs root.

    Writes the runtime into daemon.json and has dockerd read it; containers go on. A second run changes nothing, or
    brings the runtime up to date. Where `docker run --gpus` needs a restart of Docker, it asks on a terminal.
    """
    from gpuprov.stories.gate import gate_up

    def agree(question: str) -> bool:
        return session.interactive and click.confirm(question, err=True)

    return gate_up(session.host, default=default, policy=policy, agree=agree, reporter=session.reporter)


@command()
def down(session: Session) -> Outcome:
    """Revert what `gate up` did. Refused while containers name the runtime. Needs root."""
    from gpuprov.stories.gate import gate_down

    return gate_down(session.host, reporter=session.reporter)


@command()
def status(session: Session) -> Result:
    """Show whether Docker knows the runtime, and the containers that name it. Changes nothing."""
    from gpuprov.stories.gate import look_at_gate

    gate = look_at_gate(session.host)
    return Result(document=gate, text="\n".join(_lines(gate)))


@command()
def check(session: Session) -> Result:
    """Run the runtime as Docker does, without a container, and say what it lacks. Changes nothing. Needs root.

    Exits with 3 if something is missing.
    """
    from gpuprov.core.errors import HostNotReady
    from gpuprov.stories.gate import check_gate

    gate = check_gate(session.host)
    checks = gate.checks or ()
    rows = [("pass" if one.passed else "FAIL", one.name, one.evidence) for one in checks]
    parts = [render_table(("STATUS", "CHECK", "EVIDENCE"), rows, screen=session.screen)]
    fixes = [f"{one.name}: {one.fix}" for one in checks if one.fix]
    parts += ["", "fixes:", *fixes] if fixes else []
    code = 0 if all(one.passed for one in checks) else HostNotReady.exit_code
    return Result(document=gate, text="\n".join(parts), code=code)


@command(
    click.option("--policy", metavar="FILE", help="Try this policy before it is in force; `none` for none.  "
                 "[default: that in force]"),
    click.argument("argv", metavar="-- COMMAND", nargs=-1, type=click.UNPROCESSED),
    context_settings={"allow_interspersed_args": False},
)  # fmt: skip
def explain(session: Session, *, policy: str | None, argv: tuple[str, ...]) -> Result:
    """Say what the runtime and the policy would do to a container of `docker run`, and by which rule. Starts nothing.

    An option of docker run that gpuprov does not know is an error. Exits with 1 if the container would be refused.
    """
    from gpuprov.stories.gate_explain import explain_start

    told = explain_start(session.host, argv, environment=os.environ, folder=Path.cwd(), policy=policy)
    return Result(document=told, text="\n".join(_explained(told)), code=1 if told.starts is False else 0)


def _explained(told: GateExplanation) -> list[str]:
    steps = [f"{step.rule}: {'refused: ' if step.refused else ''}{step.what}" for step in told.steps]
    left = [f"not known here: {text}" for text in told.left]
    if not told.passes:
        first = "" if told.registered else "sudo gpuprov gate up, then "
        ways = [
            f"to have the gate see it: {first}--runtime gpuprov",
            "to have it see all: sudo gpuprov gate up --default",
        ]
        return [f"runtime: {told.runtime}, and not the gate's", *left, *ways]
    return [
        f"runtime: {told.runtime}",
        f"policy: {'touches it' if told.touched else 'does not touch it'}",
        *(steps or ["nothing is changed"]),
        *left,
        f"result: {'it starts' if told.starts else 'it is refused'}",
    ]


def _lines(gate: Gate) -> list[str]:
    known = "registered" if gate.registered else "not registered: sudo gpuprov gate up"
    program = gate.program or "none"
    if gate.program and not gate.current:
        program += " (of another version: sudo gpuprov gate up)"
    lines = [
        f"runtime: {known}{', and the default' if gate.default else ''}",
        f"program: {program}",
        f"daemon: {gate.socket}, {gate.config}",
        f"docker run --gpus: {_GPUS_OPTION[gate.gpus_option]}",
    ]
    lines += [f"policy: {line}" for line in _policy_lines(gate)]
    held = [f"{one.name} ({one.status}): {', '.join(one.gpus) or 'no GPU'}" for one in gate.containers]
    return [*lines, *(f"container: {line}" for line in held or ["none names the runtime"])]


def _policy_lines(gate: Gate) -> list[str]:
    """What it says, without the values of variables."""
    policy = gate.policy
    if policy is None:
        return [gate.policy_fault or "none"]
    refuse, variables, most = policy.refuse, policy.variables, policy.gpus_per_project
    refused = [name for name in ("privileged", "devices", "capabilities") if getattr(refuse, name)]
    if refuse.namespaces:
        refused.append(f"the host's namespaces ({', '.join(refuse.namespaces)})")
    if refuse.mounts_outside is not None:
        allowed = f" outside {', '.join(refuse.mounts_outside)}" if refuse.mounts_outside else ""
        refused.append(f"mounts of the host{allowed}")
    parts = {
        "touches": "everything" if policy.touch == "everything" else "containers that ask for GPUs",
        "refuses": ", ".join(refused),
        "mounts": ", ".join(f"{one.source} at {one.target}" for one in policy.mounts),
        "sets": ", ".join(variables.set),
        "forces": ", ".join(variables.force),
        "runs as": "" if policy.user == "keep" else policy.user,
        "removes": "what has ended" if policy.remove else "",
        "lets each project hold": "" if most is None else f"{most} GPU{'s' if most != 1 else ''} at once",
    }
    return [f"{name} {value}" for name, value in parts.items() if value]
