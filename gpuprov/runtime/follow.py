"""A container's config.json as a policy wants it: pure functions."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.runtime.edit import CLOSED_MOUNT, OPEN_MOUNT, POLICY, own_files
from gpuprov.runtime.judge import Step
from gpuprov.runtime.request import read_variables
from gpuprov.runtime.rules import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.runtime.request import Spec
    from gpuprov.runtime.rules import PolicyMount, Rules

_USER: Final = re.compile(r"([0-9]{1,10})(?::([0-9]{1,10}))?", re.ASCII)
_LAST_ID: Final = 2**32 - 2  # the one after it means no user


def follow_rules(spec: Spec, rules: Rules) -> tuple[Spec, tuple[Step, ...]]:
    """A copy with a policy's mounts, variables and user, and what that changes.

    Raises:
        UsageError: The container names a user by a variable, and it is none.
        HostNotReady: Something that it mounts lies over the place of a mount of the policy.
    """
    edited = copy.deepcopy(spec)
    process = edited.setdefault("process", {})
    own, lines = read_variables(edited), [str(line) for line in process.get("env") or []]
    added = {name: value for name, value in rules.added.items() if name not in own}
    forced = {name: value for name, value in rules.forced.items() if own.get(name) != value}
    steps = [
        *(Step(rule="variables.set", what=name) for name in added),
        *(Step(rule="variables.force", what=f"{name}, in place of its own" if name in own else name)
          for name in forced),
    ]  # fmt: skip
    if added or forced:
        process["env"] = [
            *(line for line in lines if line.partition("=")[0] not in forced),
            *(f"{name}={value}" for name, value in {**added, **forced}.items()),
        ]
    user = _user_of(rules.user, own)
    if user is not None and _set_user(process, *user):
        steps.append(Step(rule="user", what=f"{user[0]}:{user[1]}"))
    mounts = lacking_mounts(edited, rules)
    for mount in mounts:
        _put_mount(edited, mount)
        how = ", read-only" if mount.read_only else ""
        steps.append(Step(rule="mounts", what=f"{mount.source} at {mount.target}{how}"))
    if mounts or rules.touch != EVERYTHING:  # else nobody has to know later
        note = json.dumps({"files": [mount.target for mount in mounts]})
        edited["annotations"] = {**(edited.get("annotations") or {}), POLICY: note}
    return edited, tuple(steps)


def lacking_mounts(spec: Spec, rules: Rules) -> tuple[PolicyMount, ...]:
    """Those that the container does not bring itself.

    Raises:
        HostNotReady: Something that it mounts lies over the place of one.
    """
    wanted = own_files(spec, {mount.target: mount.source for mount in rules.mounts})
    return tuple(mount for mount in rules.mounts if mount.target in wanted)


def _put_mount(spec: Spec, mount: PolicyMount) -> None:
    """Before what the container itself mounts below that place, which would be hidden otherwise."""
    options = [*CLOSED_MOUNT] if mount.read_only else [*OPEN_MOUNT]
    one = {"destination": mount.target, "type": "bind", "source": mount.source, "options": options}
    mounts = spec["mounts"] = [*(spec.get("mounts") or [])]
    below = (at for at, other in enumerate(mounts) if str(other.get("destination")).startswith(f"{mount.target}/"))
    mounts.insert(next(below, len(mounts)), one)


def _user_of(rule: str, variables: Mapping[str, str]) -> tuple[int, int] | None:
    """User and group that a policy means; None for the container's own."""
    name = rule[1:] if rule.startswith("$") else ""
    text = variables.get(name, "").strip() if name else rule
    if text in ("", "keep"):
        return None
    match = _USER.fullmatch(text)
    numbers = [int(part) for part in (match[1], match[2] or match[1])] if match else []
    if not numbers or max(numbers) > _LAST_ID:
        raise UsageError(
            f"{name or 'user'}={excerpt(text)} is not a user",
            evidence=f"allowed: UID:GID, numbers up to {_LAST_ID}; keep for the container's own",
            fix=f"-e {name}=1000:1000",
        )
    return numbers[0], numbers[1]


def _set_user(process: dict[str, Any], user: int, group: int) -> bool:
    """Tells whether it was another one."""
    before = process.get("user") or {}
    if (before.get("uid", 0), before.get("gid", 0)) == (user, group):
        return False
    process["user"] = {"uid": user, "gid": group, "additionalGids": [group]}
    capabilities = process.get("capabilities")
    if user and isinstance(capabilities, dict):  # as Docker does for a user other than root
        process["capabilities"] = {"bounding": capabilities.get("bounding") or []}
    return True
