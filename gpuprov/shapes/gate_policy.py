"""The policy of `gate up --policy`: what containers get, and what they may not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from gpuprov.shapes.base import Record, Shape

Touch = Literal["requests", "everything"]
Namespace = Literal["pid", "net", "ipc", "uts", "user", "cgroup"]
Path = Annotated[
    str, Meta(pattern=r"^/[^\x00-\x1f\x7f]{0,4095}\Z", extra={"allowed": "a path that begins with /, 4096 characters"})
]
User = Annotated[
    str,
    Meta(
        pattern=r"^(keep|[0-9]{1,10}:[0-9]{1,10}|\$[A-Za-z_][A-Za-z0-9_]{0,99})\Z",
        extra={"allowed": "keep, UID:GID in quotes, or $NAME of a variable"},
    ),
]
Limit = Annotated[int, Meta(ge=0, le=10_000, extra={"allowed": "a number of GPUs"})]


class PolicyMount(Shape, frozen=True, kw_only=True):
    """A folder or file of the host that each container gets, unless it mounts something there itself."""

    may_omit: ClassVar[bool] = True
    source: Path
    target: Path
    read_only: bool = False


class PolicyVariables(Shape, frozen=True, kw_only=True):
    """Variables by name.

    Attributes:
        set: Those that a container gets if it has none of that name.
        force: Those that each container gets.
    """

    may_omit: ClassVar[bool] = True
    set: Mapping[str, str] = {}
    force: Mapping[str, str] = {}


class PolicyRefusals(Shape, frozen=True, kw_only=True):
    """What a container may not have.

    Attributes:
        privileged: All devices, or an open /proc and /sys.
        namespaces: Those of the host that it may not use.
        mounts_outside: Folders of the host that may be mounted, and what is in them; null for all.
        devices: Other devices than each container has, and GPUs that it has not leased.
        capabilities: Others than Docker's default ones.
    """

    may_omit: ClassVar[bool] = True
    privileged: bool = False
    namespaces: tuple[Namespace, ...] = ()
    mounts_outside: tuple[Path, ...] | None = None
    devices: bool = False
    capabilities: bool = False


class GatePolicy(Record, frozen=True, kw_only=True, tag="gpuprov.gate-policy/v1"):
    """A policy as people write it, as `gate status` shows it, and as the runtime reads it.

    Attributes:
        touch: Whom it is about: containers that ask for GPUs or say HOUDINI_ENABLED=true or HOUDINI_GPU_ENABLED=true,
            or each that the runtime is run for.
        user: `keep` for the container's own; a fixed one; or the variable in which the container names it.
        remove: Whether they are removed from Docker when they have ended.
        gpus_per_project: That all containers of a project of compose may hold at once; null for no limit.
    """

    may_omit: ClassVar[bool] = True
    touch: Touch = "requests"
    mounts: tuple[PolicyMount, ...] = ()
    variables: PolicyVariables = PolicyVariables()
    user: User = "keep"
    remove: bool = False
    refuse: PolicyRefusals = PolicyRefusals()
    gpus_per_project: Limit | None = None
