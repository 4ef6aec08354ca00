"""What the administrator's policy says, as `gate up --policy` left it in the runtime's folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME: Final = "rules.json"
EVERYTHING: Final = "everything"  # of `touch`: each container that the runtime is run for
_MOST_BYTES: Final = 8 * 2**20


@dataclass(frozen=True, kw_only=True)
class PolicyMount:
    """A folder or file of the host that each container gets."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """What no container may have; `docs/gate.md` says what each is.

    Attributes:
        namespaces: Kinds of which a container may not use the host's.
        mounts_outside: Folders of the host that may be mounted; None where all may.
    """

    privileged: bool = False
    namespaces: tuple[str, ...] = ()
    mounts_outside: tuple[str, ...] | None = None
    devices: bool = False
    capabilities: bool = False


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What holds for the containers that the policy touches.

    Attributes:
        touch: `requests` or `everything`.
        added: Variables of containers that do not have them.
        forced: Variables that replace those of the same name.
        user: `keep`, `UID:GID`, or `$NAME` of the variable that says it.
        gpus_per_project: That all containers of a project may hold at once; None for no limit.
        remove: Whether they are removed from Docker when they have ended.
    """

    touch: str = "requests"
    mounts: tuple[PolicyMount, ...] = ()
    added: Mapping[str, str] = field(default_factory=dict)
    forced: Mapping[str, str] = field(default_factory=dict)
    user: str = "keep"
    refuse: Refusals = Refusals()
    gpus_per_project: int | None = None
    remove: bool = False


def read_rules(folder: Path) -> Rules:
    """The policy in the runtime's folder.

    Raises:
        HostNotReady: It is not there, or cannot be read: whom it touches is not started without it.
    """
    place = folder / NAME
    try:
        with place.open("rb") as file:
            content = file.read(_MOST_BYTES)
        return parse_rules(json.loads(content))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise HostNotReady(
            "the policy cannot be read", evidence=f"{place}: {error}", fix="sudo gpuprov gate up --policy FILE"
        ) from error


def parse_rules(told: Mapping[str, Any]) -> Rules:
    """What a document `gpuprov.gate-policy/v1` says; raises what Python raises where it is none."""
    if told["version"] != 1:
        raise ValueError(f"it is of version {told['version']}, not 1")
    refuse, variables = dict(told["refuse"]), told["variables"]
    outside = refuse.pop("mounts_outside")
    return Rules(
        touch=str(told["touch"]),
        mounts=tuple(PolicyMount(**one) for one in told["mounts"]),
        added=dict(variables["set"]),
        forced=dict(variables["force"]),
        user=str(told["user"]),
        refuse=Refusals(
            namespaces=tuple(refuse.pop("namespaces")),
            mounts_outside=None if outside is None else tuple(outside),
            **refuse,
        ),
        gpus_per_project=told["gpus_per_project"],
        remove=bool(told["remove"]),
    )
