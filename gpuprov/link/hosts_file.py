"""The hosts that this user has added: an Ansible inventory, which `gpuprov play` and Ansible itself read too."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.folder_lock import folder_lock
from gpuprov.link.address import RemoteMachine, check_machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_GROUPS: Final = "all/lab/gpu_hosts"  # of lab.yml, each within the one before
_HEAD: Final = """\
---
# An Ansible inventory. The verbs `host add` and `host remove` write it; they keep variables, but no comments.
"""
_MOST_BYTES: Final = 4_000_000
_JUMP: Final = "-o ProxyJump="
# Ansible's variables by field; proxy_jump is an option of ssh there
_VARIABLES: Final[Mapping[str, str]] = {
    "address": "ansible_host",
    "user": "ansible_user",
    "port": "ansible_port",
    "identity_file": "ansible_ssh_private_key_file",
}
_ARGUMENTS: Final = "ansible_ssh_common_args"


def read_machines(path: Path) -> dict[str, RemoteMachine]:
    """All hosts of an inventory by name, in its order; none where there is no such file.

    Raises:
        UsageError: It cannot be read, is no inventory, or names what ssh cannot take.
    """
    found: dict[str, dict[str, Any]] = {}
    try:
        _gather(_load(path), {}, found)
    except (TypeError, AttributeError, RecursionError) as error:
        raise _unreadable(path, f"not an inventory: {error}") from error
    return {name: _machine(name, variables, path) for name, variables in found.items()}


def get_machine(path: Path, name: str) -> RemoteMachine:
    """One of them.

    Raises:
        UsageError: There is none of that name.
    """
    machines = read_machines(path)
    if name not in machines:
        raise UsageError(
            f"there is no host {name}",
            evidence=f"hosts in {path}: {', '.join(machines) or 'none'}",
            fix=f"gpuprov host add {name} --address ADDRESS",
        )
    return machines[name]


def resolve_machine(path: Path, name: str, **given: Any) -> RemoteMachine:  # noqa: ANN401 - fields of RemoteMachine
    """A host by its name: what is given of it, then what the inventory says, then the name as its address.

    Args:
        name: Of the host; it need not be there.
        given: Fields of RemoteMachine; None for those that are not given.

    Raises:
        UsageError: ssh cannot take it, or the inventory cannot be read.
    """
    known = read_machines(path).get(name, RemoteMachine(name=name, address=name))
    return check_machine(replace(known, **{field: value for field, value in given.items() if value is not None}))


def remember_machine(path: Path, machine: RemoteMachine) -> bool:
    """Have the inventory say this of a host, and no less of the others; whether that is new."""
    with _changing(path) as document:
        if read_machines(path).get(machine.name) == machine:
            return False
        kept = _take(document, machine.name)
        groups = document
        *above, last = _GROUPS.split("/")
        for name in above:
            groups = _below(_below(groups, name), "children")
        _below(_below(groups, last), "hosts")[machine.name] = {**kept, **_variables(machine)}
    return True


def forget_machine(path: Path, name: str) -> bool:
    """Take a host out of the inventory; whether it was there."""
    if name not in read_machines(path):
        return False
    with _changing(path) as document:
        _take(document, name)
    return True


def _load(path: Path) -> dict[str, Any]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unreadable(path, str(error)) from error
    import yaml  # here: most users have added no hosts

    try:
        with file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise _unreadable(path, f"it has more than {_MOST_BYTES} bytes")
        document = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(document or {}, dict):
        raise _unreadable(path, "not an inventory: it is not a mapping of groups")
    return document or {}


def _gather(groups: Mapping[str, Any], above: Mapping[str, Any], found: dict[str, dict[str, Any]]) -> None:
    """The variables of each host, those of its groups first, which its own override."""
    for group in groups.values():
        variables = {**above, **((group or {}).get("vars") or {})}
        for name, own in ((group or {}).get("hosts") or {}).items():
            found[str(name)] = {**variables, **found.get(str(name), {}), **(own or {})}
        _gather((group or {}).get("children") or {}, variables, found)


def _machine(name: str, variables: Mapping[str, Any], path: Path) -> RemoteMachine:
    told = {field: variables[key] for field, key in _VARIABLES.items() if variables.get(key) not in (None, "")}
    arguments = str(variables.get(_ARGUMENTS) or "")
    jump = arguments.removeprefix(_JUMP) if arguments.startswith(_JUMP) else ""
    try:
        port = int(told["port"]) if "port" in told else None
    except (TypeError, ValueError) as error:
        raise _unreadable(path, f"{name}: {_VARIABLES['port']} is not a number: {told['port']!r}") from error
    return check_machine(
        RemoteMachine(
            name=name,
            address=str(told.get("address", name)),
            user=str(told.get("user", "")),
            port=port,
            identity_file=str(told.get("identity_file", "")),
            proxy_jump=jump,
        )
    )


def _variables(machine: RemoteMachine) -> dict[str, Any]:
    told = {key: getattr(machine, field) for field, key in _VARIABLES.items()}
    if machine.address == machine.name:
        del told[_VARIABLES["address"]]
    if machine.proxy_jump:
        told[_ARGUMENTS] = f"{_JUMP}{machine.proxy_jump}"
    return {key: value for key, value in told.items() if value not in (None, "")}


def _below(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    """The mapping under a key, made where there is none."""
    if not mapping.get(key):
        mapping[key] = {}
    found: dict[str, Any] = mapping[key]
    return found


def _take(groups: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Remove a host from all groups; returns those of its variables that are not about the way to it."""
    kept: dict[str, Any] = {}
    for group in groups.values():
        hosts = (group or {}).get("hosts") or {}
        kept |= hosts.pop(name, None) or {}
        kept |= _take((group or {}).get("children") or {}, name)
    return {key: value for key, value in kept.items() if key not in (*_VARIABLES.values(), _ARGUMENTS)}


@contextmanager
def _changing(path: Path) -> Iterator[dict[str, Any]]:
    """The inventory, to be changed in the block and written at its end, in one step."""
    import secrets

    import yaml

    draft = path.parent / f".hosts-{secrets.token_hex(6)}.part"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with folder_lock(path.parent, waits=True):
            document = _load(path)
            before = repr(document)
            yield document
            if repr(document) == before:
                return
            with draft.open("x", encoding="utf-8") as file:
                file.write(_HEAD + yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path.resolve())
    except OSError as error:
        raise HostNotReady(f"cannot write {path}", evidence=str(error), fix=f"ls -ld {path.parent}") from error
    finally:
        with suppress(OSError):
            draft.unlink()


def _unreadable(path: Path, evidence: str) -> UsageError:
    return UsageError(f"cannot read the hosts in {path}", evidence=evidence, fix=f"correct or move {path}")
