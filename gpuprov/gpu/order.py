"""What a person orders in GPUs, by options, spec and environment variables, resolved with the GPUs of a host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from gpuprov.core.errors import UsageError
from gpuprov.core.units import GIB
from gpuprov.gpu.allocate import LeaseRequest
from gpuprov.gpu.visible_devices import parse_selection, parse_visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.choices import Sharing

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
ENABLED: Final = "HOUDINI_GPU_ENABLED"
REQUESTED: Final = ("HOUDINI_GPU_REQUESTED", "HOUDINI_GPU_REQUEST")
VARIABLES: Final = (VISIBLE, ENABLED, *REQUESTED)
_WORDS: Final = {"true": True, "1": True, "false": False, "0": False}
_NUMBER = re.compile(r"[0-9]{1,4}", re.ASCII)


class GpuWish(Protocol):
    """What was said of GPUs: a GpuOrder (shapes/gpu_order.py), or what a container's own words come to."""

    @property
    def per_node(self) -> int | str | None:
        """How many, or which."""

    @property
    def sharing(self) -> Sharing | None:
        """How they are to be held."""

    @property
    def criteria(self) -> Mapping[str, Any]:
        """What each GPU has to meet."""


@dataclass(frozen=True, kw_only=True)
class _Judgement:
    """What a criterion means: whether a GPU meets its value, and that value in words, after `with`."""

    meets: Callable[[Gpu, Any], bool]
    words: Callable[[Any], str]


_JUDGEMENTS: Final[Mapping[str, _Judgement]] = {
    "memory_gib": _Judgement(
        meets=lambda gpu, least: (gpu.memory_bytes or 0) >= least * GIB,
        words=lambda least: f"at least {least:g} GiB of memory",
    ),
    "model": _Judgement(
        meets=lambda gpu, part: part.strip().lower() in gpu.model.lower(),
        words=lambda part: f"a model name that contains {part!r}",
    ),
}


@dataclass(frozen=True, kw_only=True)
class GpuDefault:
    """What holds where the order is silent.

    Attributes:
        said: The words to quote if the user chose it explicitly, so that a variable must not contradict it.
    """

    count: int = 1
    sharing: Sharing = "shared"
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class _Statement:
    """One thing that was said; None is no opinion."""

    source: str
    count: int | None = None
    gpus: tuple[Gpu, ...] = ()
    sharing: Sharing | None = None


def resolve_order(
    order: GpuWish, environment: Mapping[str, str], host: HostGpus, default: GpuDefault, *, node: str
) -> LeaseRequest:
    """Bring all that was said together: so many GPUs, or these, out of those.

    Args:
        order: What was said.
        environment: Of the container; some variables ask for GPUs.
        host: The GPUs that there are.
        default: What holds where nothing was said.
        node: Name of the node or job that is to hold them.

    Raises:
        UsageError: A part of it is nonsense, names what is not there, or two parts contradict each other.
    """
    statements = [*_options(order, host), *_variables(environment, host)]
    if default.said and statements:
        sharing: Sharing | None = "exclusive" if default.sharing == "exclusive" else None
        statements.append(_Statement(source=default.said, count=default.count, sharing=sharing))
    _refuse_contradiction(statements)
    counts = [one.count for one in statements if one.count is not None]
    count = counts[0] if counts else default.count
    named = next((one.gpus for one in statements if one.gpus), ())
    among = _among(order, host)
    if named and among is not None:
        named = _fitting(named, among, order, host)
    elif among is not None and count > len(among):
        lack = "there is no GPU" if count == 1 else f"there are fewer than {count} GPUs"
        raise _unfit(f"{lack} with {_criteria(order)}", host)
    return LeaseRequest(
        node=node,
        count=len(named) or count,
        sharing=_sharing(order, environment, statements, default),
        wanted=tuple(gpu.uuid for gpu in named),
        among=among,
    )


def is_silent(order: GpuWish, environment: Mapping[str, str]) -> bool:
    """Whether nothing is said about which GPUs and how many."""
    return order.per_node is None and not any(name in environment for name in VARIABLES)


def describe_unfit(order: GpuWish, gpus: Sequence[Gpu]) -> list[str]:
    """What these GPUs lack of what each has to meet, a sentence for each that does."""
    return [f"GPU {gpu.label} does not have {_criteria(order)}" for gpu in gpus if not _fits(gpu, order)]


def inner_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for a container: unchanged, except for the one that NVIDIA's own runtime obeys.

    The lease decides what gets in; a host whose Docker runs everything by that runtime must not add what the variable,
    or the image, names.
    """
    return {**environment, VISIBLE: "void"} if VISIBLE in environment else dict(environment)


def _options(order: GpuWish, host: HostGpus) -> list[_Statement]:
    said = []
    if order.per_node is not None:
        chosen = parse_selection(str(order.per_node), host)
        said.append(_Statement(source=f"--gpus {order.per_node}", count=chosen.count, gpus=chosen.gpus))
    if order.sharing is not None:
        source = "--exclusive" if order.sharing == "exclusive" else "--sharing shared"
        said.append(_Statement(source=source, sharing=order.sharing))
    return said


def _variables(environment: Mapping[str, str], host: HostGpus) -> list[_Statement]:
    said = []
    if VISIBLE in environment:
        text = environment[VISIBLE]
        gpus = parse_visible(text, host).gpus
        everybody: Sharing | None = "shared" if text.strip() == "all" else None
        said.append(_Statement(source=f"{VISIBLE}={text}", count=len(gpus), gpus=gpus, sharing=everybody))
    said += [_requested(name, environment[name], host) for name in REQUESTED if name in environment]
    if ENABLED in environment:
        enabled = _WORDS.get(environment[ENABLED].strip().lower())
        source = f"{ENABLED}={environment[ENABLED]}"
        if enabled is None:
            raise UsageError(
                f"{source} is neither true nor false", evidence="allowed: true, false", fix=f"{ENABLED}=true"
            )
        if enabled and not said:
            raise UsageError(
                f"{source} does not select a GPU",
                evidence=f"it gives access to the GPUs in {VISIBLE}, which is not set",
                fix=f"add {VISIBLE}=all, or a list of indexes or UUIDs",
            )
        if not enabled:
            said.append(_Statement(source=source, count=0))
    return said


def _requested(name: str, text: str, host: HostGpus) -> _Statement:
    if not _NUMBER.fullmatch(text.strip()):
        raise UsageError(
            f"{name}={text} is not a number of GPUs",
            evidence="it is the number of GPUs for exclusive use",
            fix=f"{name}=1",
        )
    count = int(text)
    if count > len(host.units):
        raise _unfit(f"{name}={text}: there are fewer than {count} GPUs", host)
    return _Statement(source=f"{name}={text}", count=count, sharing="exclusive" if count else None)


def _refuse_contradiction(statements: Sequence[_Statement]) -> None:
    for number, one in enumerate(statements):
        for other in statements[:number]:
            if _contradict(other, one):
                raise UsageError(
                    f"{other.source} contradicts {one.source}",
                    evidence=f"{_meaning(other)}; {_meaning(one)}",
                    fix="omit one of them",
                )


def _contradict(one: _Statement, other: _Statement) -> bool:
    if None not in (one.count, other.count) and one.count != other.count:
        return True
    if one.gpus and other.gpus and set(one.gpus) != set(other.gpus):
        return True
    return None not in (one.sharing, other.sharing) and one.sharing != other.sharing


def _meaning(statement: _Statement) -> str:
    gpus = ", ".join(f"GPU {gpu.label}" for gpu in statement.gpus) or (
        "" if statement.count is None else f"{statement.count} GPU{'' if statement.count == 1 else 's'}"
    )
    if not statement.sharing:
        return f"{statement.source} requests {gpus or 'nothing'}"
    return f"{statement.source} requests {f'{gpus} ({statement.sharing})' if gpus else f'{statement.sharing} access'}"


def _sharing(
    order: GpuWish, environment: Mapping[str, str], statements: Sequence[_Statement], default: GpuDefault
) -> Sharing:
    stated = next((one.sharing for one in statements if one.sharing), None)
    if stated is not None:
        return stated
    # A list of visible GPUs alone, as NVIDIA's toolkit interprets it, is not a request for exclusive use.
    return "shared" if VISIBLE in environment and order.per_node is None else default.sharing


def _among(order: GpuWish, host: HostGpus) -> tuple[str, ...] | None:
    return tuple(unit.uuid for unit in host.units if _fits(unit, order)) if order.criteria else None


def _fits(unit: Gpu, order: GpuWish) -> bool:
    return all(_JUDGEMENTS[name].meets(unit, value) for name, value in order.criteria.items())


def _criteria(order: GpuWish) -> str:
    return " and ".join(_JUDGEMENTS[name].words(value) for name, value in order.criteria.items())


def _fitting(named: Sequence[Gpu], among: Sequence[str], order: GpuWish, host: HostGpus) -> tuple[Gpu, ...]:
    """All of them; of `all`, those that fit, at least one."""
    fitting = tuple(gpu for gpu in named if gpu.uuid in among)
    everything = str(order.per_node).strip() == "all"
    if not fitting or (len(fitting) < len(named) and not everything):
        unfit = ", ".join(gpu.label for gpu in named if gpu.uuid not in among)
        raise _unfit(f"GPU {unfit} does not have {_criteria(order)}", host)
    return fitting


def _unfit(what: str, host: HostGpus) -> UsageError:
    listing = "; ".join(f"{unit.label} = {unit.model}, {_size(unit)}" for unit in host.units)
    return UsageError(
        what, evidence=f"this host has {listing or 'no GPU to lease'}", fix="list the GPUs of this host: gpuprov gpus"
    )


def _size(unit: Gpu) -> str:
    return "memory unknown" if unit.memory_bytes is None else f"{unit.memory_bytes / GIB:g} GiB"
