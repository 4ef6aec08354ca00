"""`gate`: Docker knows the runtime that leases GPUs to any container, or no more; what there is of it."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import EngineError, HostNotReady
from gpuprov.core.excerpt import excerpt
from gpuprov.core.execution import run
from gpuprov.core.outcome import Outcome
from gpuprov.core.whole_file import replace_file
from gpuprov.drivers.docker.connect import find_socket, require_socket
from gpuprov.drivers.registry import is_installed
from gpuprov.drivers.sockets import socket_places
from gpuprov.machine.daemon_json import (
    DEFAULT_RUNTIME,
    OURS,
    RUNTIME,
    read_settings,
    render_settings,
    with_runtime,
    without_runtime,
)
from gpuprov.machine.docker_daemon import find_daemon
from gpuprov.machine.runtime_program import HOOK, is_our_hook, program_for, remove_hook, write_hook
from gpuprov.runtime.engines import Place
from gpuprov.runtime.gpus import NVML_NAME
from gpuprov.runtime.settings import Settings
from gpuprov.shapes.base import changed
from gpuprov.shapes.choices import ENGINES
from gpuprov.shapes.gate import Gate, GateCheck, GateContainer
from gpuprov.spec.gate_policy import read_gate_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host
    from gpuprov.machine.docker_daemon import DockerDaemon
    from gpuprov.shapes.gate import GpusOption
    from gpuprov.shapes.gate_policy import GatePolicy

NO_POLICY: Final = "none"  # in place of a file
_NEW_POLICY: Final = "sudo gpuprov gate up --policy FILE"
_RESTART_S: Final = 180.0


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """A daemon.json, as text and as what it says."""

    path: Path
    text: str | None
    said: dict[str, Any]


def read_policy(policy: str) -> GatePolicy | None:
    """The policy in a file; None for NO_POLICY. Raises SpecError where it has problems."""
    if policy == NO_POLICY:
        return None
    return read_gate_policy(Path(policy), is_there=lambda place: Path(place).exists())


def gate_up(
    host: Host, *, default: bool, policy: str | None = None, agree: Callable[[str], bool], reporter: Reporter
) -> Outcome:
    """Have the daemon know the runtime; containers go on, and a second run changes nothing.

    Args:
        host: This machine.
        default: Whether it is to run containers that name no runtime.
        policy: The file that says what containers get and may not have; NO_POLICY for none, and None for that which
            is in force.
        agree: Asked whether to restart Docker, where only that makes `docker run --gpus` work.

    Raises:
        HostNotReady: Not root, or the daemon's settings stand in the way, or nobody knows which policy is in force.
        SpecError: The policy has problems.
    """
    _require_root("up")
    rules = None if policy is None else read_policy(policy)
    daemon = _find()
    with host.lock(reporter):
        settings = _read(daemon.config)
        program = program_for(daemon.socket)
        default = default or settings.said.get("default-runtime") == DEFAULT_RUNTIME  # containers may name it by now
        wanted = with_runtime(settings.said, program.places, default=default)
        if daemon.flags:
            raise HostNotReady(
                f"dockerd was started with {' and '.join(daemon.flags)}",
                evidence=f"it does not start where {daemon.config} says the same things",
                fix=f"move them into {daemon.config}, restart dockerd, then: sudo gpuprov gate up",
            )
        if policy is None:
            rules = program.find_rules()
        lines = [*program.write(_settings_for(host, daemon), runc=_runc(daemon), rules=rules)]
        if wanted != settings.said:
            _change(daemon, settings, wanted)
            lines.append(f"registered the runtime {RUNTIME} in {daemon.config}{', as the default' if default else ''}")
        elif not _knows(daemon.info(), default=default):
            daemon.reload(until=lambda info: _knows(info, default=default))
            lines.append("had dockerd read its daemon.json again")
        hook = write_hook(daemon.path)
        if hook and hook[1]:
            lines.append(f"made {hook[0]}, for docker run --gpus")
    for kind in find_refused_by_all(rules, daemon.info()) if rules else ():
        reporter.note(f"every container here has the host's {kind} namespace: the policy refuses all that it touches")
    if host.gpus("auto").simulated and not program.has_nvml:
        reporter.note(
            f"programs in containers find no {NVML_NAME}, as this machine has no C compiler: "
            "apt-get install tcc; sudo gpuprov gate up"
        )
    if _gpus_option(daemon) == "after a restart":
        lines += _offer_restart(daemon, agree, reporter)
    return Outcome(changed=tuple(lines))


def find_refused_by_all(rules: GatePolicy, info: Mapping[str, Any]) -> tuple[str, ...]:
    """Namespaces of the host that the policy refuses, and each container of this Docker has."""
    own = {str(text).partition(",")[0] for text in info.get("SecurityOptions") or ()}
    features = {"user": "name=userns", "cgroup": "name=cgroupns"}
    return tuple(kind for kind, name in features.items() if kind in rules.refuse.namespaces and name not in own)


def gate_down(host: Host, *, reporter: Reporter) -> Outcome:
    """Have the daemon know the runtime no more.

    Raises:
        EngineError: Containers name it: they could not be started again.
    """
    _require_root("down")
    daemon = _find()
    with host.lock(reporter):
        users = [one for one in daemon.containers() if _runtime_of(one) in OURS]
        if users:
            names = [_name_of(one) for one in users]
            raise EngineError(
                f"{len(users)} container{'s' if len(users) > 1 else ''} of Docker "
                f"name{'s' if len(users) == 1 else ''} the runtime and could not be started without it",
                evidence="; ".join(f"{_name_of(one)} ({_runtime_of(one)}, {one['State']['Status']})" for one in users),
                fix=f"remove them first: docker rm -f {' '.join(names)}",
            )
        settings = _read(daemon.config)
        wanted = without_runtime(settings.said)
        lines = []
        if wanted != settings.said:
            _change(daemon, settings, wanted)
            lines.append(f"removed the runtime {RUNTIME} from {daemon.config}")
        lines += [*program_for(daemon.socket).remove(), *remove_hook(daemon.path)]
    return Outcome(changed=tuple(lines))


def look_at_gate(host: Host) -> Gate:
    """What there is of it."""
    daemon = _find()
    info = daemon.info()
    program = program_for(daemon.socket)
    there = program.find()
    held = {lease.node: lease.gpus for lease in host.container_leases()}
    policy, fault = None, ""
    try:
        policy = program.find_rules()
    except HostNotReady as error:
        fault = f"{error.what}: {error.evidence}"
    return Gate(
        host=host.name,
        socket=str(daemon.socket),
        config=str(daemon.config),
        registered=RUNTIME in (info.get("Runtimes") or {}),
        default=info.get("DefaultRuntime") == DEFAULT_RUNTIME,
        program=str(there or ""),
        current=program.is_current(),
        gpus_option=_gpus_option(daemon),
        policy=policy,
        policy_fault=fault,
        containers=tuple(
            GateContainer(
                name=_name_of(one),
                runtime=_runtime_of(one),
                status=str(one["State"]["Status"]),
                gpus=held.get(_name_of(one), ()),
            )
            for one in daemon.containers()
            if _runtime_of(one) in OURS
        ),
    )


def check_gate(host: Host) -> Gate:
    """The same, and whether it works as engines run it."""
    gate = look_at_gate(host)
    again = "sudo gpuprov gate up"
    checks = [
        _check(
            "registered",
            gate.registered,
            f"dockerd at {gate.socket} {'knows' if gate.registered else 'does not know'} {RUNTIME}",
            again,
        ),
        _check("current", gate.current, gate.program or "there is no program", again),
        _check("policy", not gate.policy_fault, gate.policy_fault or _policy_in_force(gate), _NEW_POLICY),
    ]
    command = program_for(find_socket()).check_command()
    if command:
        answer = run(command, timeout_s=30, check=False)
        try:
            said: dict[str, Any] = json.loads(answer.stdout)
        except ValueError:
            said = {"what": f"exit {answer.exit_code}", "evidence": answer.stderr[-400:]}
        checks += _judge(said)
    return changed(gate, checks=tuple(checks))


def _policy_in_force(gate: Gate) -> str:
    return f"touches {gate.policy.touch}" if gate.policy else "there is none"


def _judge(said: Mapping[str, Any]) -> list[GateCheck]:
    if "gpus" not in said:
        parts = said.get("error", said)
        evidence = f"{parts.get('what')}: {parts.get('evidence')}"
        return [_check("answers", False, evidence, str(parts.get("fix") or "sudo gpuprov gate up"))]  # noqa: FBT003
    silent = said["silent"]
    kind = "SIMULATED GPUs" if said["simulated"] else "GPUs"
    return [
        _check("answers", bool(said["gpus"]), f"{said['gpus']} {kind}, in {said['seconds']} s", "gpuprov gpus"),
        _check(
            "engines",
            not silent,
            "; ".join(silent.values()) or f"all engines answer; leases: {len(said['leases'])}",
            "gpuprov doctor",
        ),
    ]


def _check(name: str, passed: object, evidence: str, fix: str) -> GateCheck:
    return GateCheck(name=name, passed=bool(passed), evidence=evidence, fix="" if passed else fix)


def _find() -> DockerDaemon:
    place = find_socket()
    require_socket(place)
    return find_daemon(place)


def _require_root(verb: str) -> None:
    if os.geteuid() != 0:
        raise HostNotReady(
            f"gate {verb} changes Docker's settings and needs root",
            evidence=f"uid {os.geteuid()}",
            fix=f"sudo {sys.argv[0]} gate {verb}",
        )


def _settings_for(host: Host, daemon: DockerDaemon) -> Settings:
    gpus = host.gpus("auto")
    sockets = {engine: tuple(str(place) for place in socket_places(engine)) for engine in ENGINES}
    places = [
        Place(engine=engine, sockets=sockets[engine], installed=is_installed(engine))
        for engine in ENGINES
        if engine != "docker"
    ]
    places.append(Place(engine="docker", sockets=(str(daemon.socket),)))
    if str(daemon.socket) not in sockets["docker"]:
        places.append(Place(engine="docker", sockets=sockets["docker"], installed=False))
    return Settings(
        engines=tuple(places),
        simulation=gpus.document,
        data_root=str(daemon.info().get("DockerRootDir") or ""),
    )


def _runc(daemon: DockerDaemon) -> Path:
    named = str(((daemon.info().get("Runtimes") or {}).get("runc") or {}).get("path") or "runc")
    found = daemon.find_program(named)
    if found is None:
        raise HostNotReady(
            "Docker's runc cannot be found", evidence=f"{named} in {daemon.path}", fix="apt-get install runc"
        )
    return found


def _read(path: Path) -> _Settings:
    text = None
    with suppress(FileNotFoundError):
        text = path.read_text(encoding="utf-8")
    return _Settings(path=path, text=text, said=read_settings(text or "", path=path))


def _change(daemon: DockerDaemon, settings: _Settings, wanted: Mapping[str, Any]) -> None:
    """Write daemon.json, keep a copy of what was there, and have it read; what the daemon does not take is put back."""
    path = settings.path
    path.parent.mkdir(parents=True, exist_ok=True)
    before = _copy_of(path)
    if settings.text is not None and settings.said == without_runtime(settings.said):
        _replace(before, settings.text, like=path)
    # dockerd takes over what is there, and keeps what it had of a key that is not
    _replace(path, render_settings({"runtimes": {}, "default-runtime": "runc", **wanted}))
    names = set(wanted.get("runtimes", {})) & set(OURS)
    try:
        daemon.reload(
            until=lambda info: (
                names == set(info.get("Runtimes") or {}) & set(OURS)
                and (info.get("DefaultRuntime") == DEFAULT_RUNTIME)
                == (wanted.get("default-runtime") == DEFAULT_RUNTIME)
            )
        )
    except BaseException:
        if settings.text is None:
            path.unlink(missing_ok=True)
        else:
            _replace(path, settings.text)
        raise
    if names:
        _replace(path, render_settings(wanted))
    else:
        _give_back(path, wanted)


def _copy_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.before-gpuprov")


def _give_back(path: Path, wanted: Mapping[str, Any]) -> None:
    """Leave the file as it was before, to the letter, unless somebody has changed it since."""
    before = _read(_copy_of(path))
    if before.text is not None and before.said == wanted:
        _replace(path, before.text)
        before.path.unlink()
    elif before.text is None and not wanted:
        path.unlink()
    else:
        _replace(path, render_settings(wanted))


def _replace(path: Path, text: str, *, like: Path | None = None) -> None:
    """Write it with the mode of what is there: it may hold passwords."""
    model = like or path
    replace_file(path, text, mode=model.stat().st_mode & 0o777 if model.exists() else 0o644)


def _offer_restart(daemon: DockerDaemon, agree: Callable[[str], bool], reporter: Reporter) -> list[str]:
    running = [_name_of(one) for one in daemon.containers() if one["State"]["Status"] == "running"]
    goes_on = daemon.info().get("LiveRestoreEnabled") or not running
    stopped = "" if goes_on else f", which stops {excerpt(', '.join(running))}"
    why = f"docker run --gpus works once dockerd has been restarted{stopped}"
    if daemon.unit and agree(f"{why}. Restart it now?"):
        run(["systemctl", "restart", daemon.unit], timeout_s=_RESTART_S)
        return [f"restarted {daemon.unit}"]
    reporter.note(f"{why}: systemctl restart {daemon.unit or 'docker'}")
    return []


def _knows(info: Mapping[str, Any], *, default: bool) -> bool:
    wanted = set(OURS) if default else {RUNTIME}
    return wanted <= set(info.get("Runtimes") or {}) and (info.get("DefaultRuntime") == DEFAULT_RUNTIME) == default


def _gpus_option(daemon: DockerDaemon) -> GpusOption:
    """Dockerd looks for the hook when it starts, and never again."""
    found = daemon.find_program(HOOK)
    if found is None:
        return "absent"
    if not is_our_hook(found):
        return "of NVIDIA"
    return "works" if found.stat().st_mtime < daemon.begun_s else "after a restart"


def _runtime_of(container: Mapping[str, Any]) -> str:
    return str(container["HostConfig"].get("Runtime") or "")


def _name_of(container: Mapping[str, Any]) -> str:
    return str(container["Name"]).lstrip("/")
