"""`gate explain`: what the runtime would do to a container, by the functions that do it; nothing is started."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gpuprov.core.errors import GpuprovError, HostNotReady
from gpuprov.drivers.docker.connect import find_socket, require_socket
from gpuprov.gpu.order import resolve_order
from gpuprov.machine.daemon_json import OURS, RUNTIME
from gpuprov.machine.docker_daemon import ask_daemon
from gpuprov.machine.docker_start import Known, describe_start, visible_of_gpus, volume_folder
from gpuprov.machine.runtime_program import program_for
from gpuprov.runtime.follow import follow_rules
from gpuprov.runtime.gpus import read_gpus
from gpuprov.runtime.judge import Step, judge
from gpuprov.runtime.removal import AFTER_S
from gpuprov.runtime.request import is_marked, read_request
from gpuprov.runtime.rules import EVERYTHING, Rules, parse_rules
from gpuprov.runtime.settings import read_settings
from gpuprov.runtime.surroundings import observe_surroundings
from gpuprov.shapes.base import encode
from gpuprov.shapes.gate import GateExplanation, GateStep
from gpuprov.spec.docker_run import parse_docker_run
from gpuprov.stories.gate import read_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.base import Host
    from gpuprov.machine.docker_start import Start
    from gpuprov.runtime.request import Asked
    from gpuprov.spec.docker_run import DockerRun


def explain_start(
    host: Host, words: Sequence[str], *, environment: Mapping[str, str], folder: Path, policy: str | None = None
) -> GateExplanation:
    """What would come of `docker run ...`.

    Args:
        host: This machine.
        words: The command line, from `docker`.
        environment: Of whoever types it.
        folder: In which it is typed.
        policy: As for `gate up`, to see what it would do; the runtime need not be there for it.

    Raises:
        UsageError: It is no such command line, or has an option that gpuprov does not know.
        SpecError: The policy has problems.
        HostNotReady: Docker does not respond, or what the runtime goes by cannot be read.
    """
    tried = None if policy is None else read_policy(policy)
    run = parse_docker_run(words)
    socket = find_socket()
    require_socket(socket)
    info = _ask(socket, "/info")
    is_there = RUNTIME in (info.get("Runtimes") or {})
    runtime = _runtime_of(run, info, assume=policy is not None)
    if runtime not in OURS:
        return _passed_by(host, runtime, wants_gpus=bool(run.last("gpus")), is_there=is_there)
    if policy is None:
        _require_runtime(runtime, info, socket)
    start, known, left = _describe(run, socket, info, environment=environment, folder=folder)
    program = program_for(socket)
    in_force = program.find_rules() if policy is None else tried
    rules = parse_rules(json.loads(encode(in_force))) if in_force else None
    steps: list[Step] = []
    asked = None
    try:
        asked = read_request(start.spec, named=runtime == RUNTIME)
    except GpuprovError as error:
        steps.append(_refusal("gpus", error))
    touched = rules is not None and (
        rules.touch == EVERYTHING or asked is not None or bool(steps) or is_marked(start.spec)
    )
    if rules is not None and touched:
        steps += _follow(run, start, rules, socket, known)
    if asked is not None:
        most = rules.gpus_per_project if rules else None
        look = partial(_gpus_of_runtime, program.folder) if is_there else partial(host.gpus, "auto")
        steps.append(_lease(start, asked, look, most))
        left += _of_leases(start, most)
    return GateExplanation(
        host=host.name,
        runtime=runtime,
        registered=is_there,
        passes=True,
        touched=touched,
        starts=not any(step.refused for step in steps),
        steps=tuple(GateStep(rule=step.rule, what=step.what, refused=step.refused) for step in steps),
        left=(*start.left, *left),
    )


def _runtime_of(run: DockerRun, info: Mapping[str, Any], *, assume: bool) -> str:
    """The runtime that Docker takes; with `assume` the gate's, unless the command names another."""
    if run.last("gpus"):
        visible_of_gpus(run.last("gpus"))  # else Docker's client refuses it
    usual = str(info.get("DefaultRuntime") or "")
    return run.last("runtime") or (RUNTIME if assume and usual not in OURS else usual)


def _require_runtime(runtime: str, info: Mapping[str, Any], socket: Path) -> None:
    if runtime not in (info.get("Runtimes") or {}):
        raise HostNotReady(
            f"Docker knows no runtime {runtime}", evidence=f"asked at {socket}", fix="sudo gpuprov gate up"
        )


def _of_leases(start: Start, most: int | None) -> list[str]:
    """What only a start shows of leases."""
    if most is None or not start.project:
        return ["which GPUs are free"]
    return ["which GPUs are free", f"how many GPUs the project {start.project} holds; {most} at once are allowed"]


def _describe(
    run: DockerRun, socket: Path, info: Mapping[str, Any], *, environment: Mapping[str, str], folder: Path
) -> tuple[Start, Known, list[str]]:
    """The start as the runtime would see it, what was known for that, and what is not."""
    image = _ask(socket, f"/images/{quote(os.fsencode(run.image), safe='/:@')}/json").get("Config")
    known = Known(
        data_root=str(info.get("DockerRootDir") or ""),
        features=tuple(map(str, info.get("SecurityOptions") or ())),
        image=tuple(map(str, (image or {}).get("Env") or ())),
        environment=environment,
        folder=folder,
    )
    left = [] if image else [f"the variables of the image {run.image}, which is not on this host"]
    return describe_start(run, known), known, left


def _passed_by(host: Host, runtime: str, *, wants_gpus: bool, is_there: bool) -> GateExplanation:
    """What another runtime starts."""
    left = ["what it does with the container"]
    if wants_gpus and is_there:
        left.append("whether it takes --gpus: the gate's stand-in for NVIDIA's hook refuses the start")
    return GateExplanation(
        host=host.name,
        runtime=runtime,
        registered=is_there,
        passes=False,
        touched=False,
        starts=None,
        steps=(),
        left=tuple(left),
    )


def _ask(socket: Path, path: str) -> Mapping[str, Any]:
    told = ask_daemon(socket, path)
    return told if isinstance(told, dict) else {}


def _follow(run: DockerRun, start: Start, rules: Rules, socket: Path, known: Known) -> list[Step]:
    """What the policy refuses and adds."""
    allowed = rules.refuse.mounts_outside or ()
    around = observe_surroundings(
        start.spec, container="", data_root=known.data_root, allowed=allowed, bundle=known.folder
    )
    options = {
        name: _ask(socket, f"/volumes/{quote(os.fsencode(name))}").get("Options") or {} for name in start.volumes
    }
    folders = {volume_folder(around.data_root, name) for name, told in options.items() if told.get("device")}
    steps = [*judge(start.spec, rules.refuse, replace(around, mounted=around.mounted | folders))]
    stays = run.is_set("rm") or (run.last("restart") or "no") != "no" or run.last("log-driver") == "none"
    if rules.remove and not stays:
        steps.append(Step(rule="remove", what=f"from Docker, {AFTER_S} s after it has ended"))
    try:
        return [*steps, *follow_rules(start.spec, rules)[1]]
    except GpuprovError as error:
        return [*steps, _refusal("policy", error)]


def _gpus_of_runtime(program: Path) -> HostGpus:
    return read_gpus(read_settings(program))


def _lease(start: Start, asked: Asked, look: Callable[[], HostGpus], limit: int | None) -> Step:
    try:
        gpus = look()
        node = str(start.spec["hostname"]) or "it"
        request = resolve_order(asked, asked.environment, gpus, asked.default, node=node)
    except GpuprovError as error:
        return _refusal("gpus", error)
    if limit is not None and request.size > limit:
        return Step(rule="gpus_per_project", what=f"asks for {request.size} GPUs, of {limit} at once", refused=True)
    kind = "SIMULATED GPU" if gpus.simulated else "GPU"
    which = f": {', '.join(request.wanted)}" if request.wanted else ""
    how = "of its own" if request.sharing == "exclusive" else "shared with others"
    wait = f"; waits for up to {asked.wait_s:g} s" if asked.wait_s else ""
    return Step(rule="gpus", what=f"{request.size} {kind}{'s' if request.size != 1 else ''} {how}{which}{wait}")


def _refusal(rule: str, error: GpuprovError) -> Step:
    what = "; ".join(part for part in (error.what, error.evidence, error.fix) if part)
    return Step(rule=rule, what=" ".join(what.split()), refused=True)
