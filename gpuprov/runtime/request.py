"""What the container of an OCI bundle asks for: pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import UsageError
from gpuprov.gpu.order import ENABLED, REQUESTED, VISIBLE, GpuDefault

if TYPE_CHECKING:
    from collections.abc import Mapping

Spec = dict[str, Any]
HOOKS: Final = frozenset({"nvidia-container-runtime-hook", "nvidia-container-toolkit"})
COUNT: Final = "GPUPROV_GPUS"
SHARING: Final = "GPUPROV_SHARING"
WAIT: Final = "GPUPROV_WAIT"
ANNOTATIONS: Final = {COUNT: "gpuprov.gpus", SHARING: "gpuprov.sharing", WAIT: "gpuprov.wait"}
_MARKS: Final = (ENABLED, "HOUDINI_ENABLED")
_TRUE: Final = frozenset({"true", "1"})
_NOTHING: Final = frozenset({"", "void", "none"})
_TIME: Final = re.compile(r"([0-9]{1,6})(s|m|h|)", re.ASCII)
_LONGEST_S: Final = 86400.0  # others wait behind it, and images may set the variable
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request for GPUs, in the words of `gpu/order.py`.

    Attributes:
        environment: The variables among those of the container that count.
        wait_s: Seconds to wait for GPUs; None to be refused at once.
    """

    per_node: str | None = None
    sharing: Any = None
    environment: Mapping[str, str] = field(default_factory=dict)
    default: GpuDefault = field(default_factory=GpuDefault)
    wait_s: float | None = None

    @property
    def criteria(self) -> dict[str, Any]:
        """What each GPU has to meet; nothing can be asked of one here."""
        return {}


def read_request(spec: Spec, *, named: bool) -> Asked | None:
    """What a container asks for; None if nothing.

    Args:
        spec: Its config.json.
        named: Whether the runtime was asked for by name: only then do variables of NVIDIA's count, which images set.

    Raises:
        UsageError: It contradicts itself.
    """
    variables = read_variables(spec)
    said = {name: _value(name, variables, spec) for name in ANNOTATIONS}
    requested: dict[str, str] = {name: variables[name] for name in REQUESTED if name in variables}
    per_node = _one_of(said[COUNT], _selection_of_hook(spec, variables))
    marked = named or is_marked(spec)
    visible = variables.get(VISIBLE, "").strip()
    environment = requested
    if per_node is None and not requested:
        if not marked or visible in _NOTHING:
            return None
        environment = {VISIBLE: visible}
    sharing = said[SHARING]
    if sharing not in (None, "shared", "exclusive"):
        raise UsageError(
            f"{SHARING}={sharing} is not a way to hold GPUs",
            evidence="allowed: shared, exclusive",
            fix=f"{SHARING}=shared",
        )
    return Asked(
        per_node=per_node,
        sharing=sharing,
        environment=environment,
        default=GpuDefault(sharing="shared" if per_node == "all" else "exclusive"),
        wait_s=parse_wait(said[WAIT]),
    )


def is_marked(spec: Spec) -> bool:
    """Whether a variable says that the container is one of those that want GPUs, whatever they are."""
    variables = read_variables(spec)
    return any(variables.get(mark, "").strip().lower() in _TRUE for mark in _MARKS)


def read_variables(spec: Spec) -> dict[str, str]:
    """The container's variables; of one that is there twice, the last."""
    lines = (spec.get("process") or {}).get("env") or []
    pairs = (str(line).partition("=") for line in lines)
    return {name: value for name, _, value in pairs}


def is_gpu_hook(hook: object) -> bool:
    """Whether a hook is that of NVIDIA's toolkit, by which dockerd tells of `--gpus`."""
    return isinstance(hook, dict) and str(hook.get("path", "")).rpartition("/")[2] in HOOKS


def parse_wait(text: str | None) -> float | None:
    """Seconds, as `90`, `5m` or `1h`.

    Raises:
        UsageError: It is no time.
    """
    if text is None:
        return None
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{WAIT}={text} is not a time", evidence="allowed: 90, 90s, 5m, 1h", fix=f"{WAIT}=5m")
    wait_s = float(int(match[1]) * _SECONDS[match[2]])
    if wait_s > _LONGEST_S:
        raise UsageError(f"{WAIT}={text} is too long", evidence="allowed: at most 24h", fix=f"{WAIT}=24h")
    return wait_s


def _value(name: str, variables: Mapping[str, str], spec: Spec) -> str | None:
    return _one_of(variables.get(name), (spec.get("annotations") or {}).get(ANNOTATIONS[name]))


def _one_of(one: str | None, other: str | None) -> str | None:
    if None not in (one, other) and str(one).strip() != str(other).strip():
        raise UsageError(
            f"the container asks for two things: {one} and {other}",
            evidence="by a variable, an annotation or --gpus",
            fix="leave out one of them",
        )
    found = one if one is not None else other
    return None if found is None else str(found).strip()


def _selection_of_hook(spec: Spec, variables: Mapping[str, str]) -> str | None:
    """What `--gpus` asked for: dockerd writes `--gpus 2` as `0,1`, so that is a number, and no choice."""
    hooks = (spec.get("hooks") or {}).get("prestart") or []
    if not any(map(is_gpu_hook, hooks)):
        return None
    text = variables.get(VISIBLE, "").strip()
    if text in _NOTHING:
        return None
    names = text.split(",")
    if names == [str(number) for number in range(len(names))]:
        return str(len(names))
    return f"gpu{text}" if text.isdecimal() else text
