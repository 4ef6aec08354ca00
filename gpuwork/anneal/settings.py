"""How a model is annealed: the settings of a configuration, their defaults, and what is wrong with them."""

from __future__ import annotations

import math
import struct
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from gpuprov.shapes.faults import Fault
from gpuwork.errors import shown
from gpuwork.strict import exactly, optional, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Written = Mapping[str, tuple[object, int | None]]

MOST_CHAINS: Final = 100_000_000
MOST_STEPS: Final = 10**12
MOST_SECONDS: Final = 365 * 24 * 3600
MOST_DIMENSIONS: Final = 16_384
MOST_BLOCK: Final = 1024
MOST_REPLICAS: Final = 1024


def _finite(value: object) -> bool:
    return type(value) in (int, float) and abs(cast("float", value)) < 1e300  # noqa: PLR2004  (NaN is not below)


_RULES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "dimensions": (whole(0, MOST_DIMENSIONS), f"0 to {MOST_DIMENSIONS:,} random numbers for each step"),
    "distribution": (exactly("normal", "uniform"), "normal, uniform"),
    "precision": (exactly("float32", "float64"), "float32, float64"),
    "max_steps": (whole(1, MOST_STEPS), f"1 to {MOST_STEPS:,}"),
    "initial_temp": (_finite, "a number"),
    "min_temp": (_finite, "a number"),
    "thread_count": (whole(1, MOST_CHAINS), f"1 to {MOST_CHAINS:,}"),
    "threads_per_block": (optional(whole(1, MOST_BLOCK)), f"1 to {MOST_BLOCK:,}"),
    "blocks_per_grid": (optional(whole(1, MOST_CHAINS)), f"1 to {MOST_CHAINS:,}"),
    "random_seed": (whole(-(2**63), 2**64 - 1), "a whole number of 64 bits"),
    "target": (optional(_finite), "a number"),
    "exchange_every": (optional(whole(1, MOST_STEPS)), f"1 to {MOST_STEPS:,} steps"),
    "replicas": (optional(whole(2, MOST_REPLICAS)), f"2 to {MOST_REPLICAS:,}"),
    "compile_limit_s": (whole(1, MOST_SECONDS), f"1 to {MOST_SECONDS:,} seconds"),
    "run_limit_s": (whole(1, MOST_SECONDS), f"1 to {MOST_SECONDS:,} seconds"),
    "merge_limit_s": (whole(1, MOST_SECONDS), f"1 to {MOST_SECONDS:,} seconds"),
}
NAMES: Final = tuple(_RULES)


@dataclass(frozen=True, kw_only=True)
class AnnealSettings:
    """What is asked of a model.

    Attributes:
        dimensions: How many random numbers each step gets; not the length of a state.
        distribution: Of these numbers.
        precision: Of states, energies and temperatures.
        max_steps: After so many a chain stops.
        initial_temp: The temperature of the first step.
        min_temp: At or below this a chain stops; with `replicas`, the temperature of the coldest.
        thread_count: How many chains.
        threads_per_block: None: as many as the device holds best.
        blocks_per_grid: None: as many as the chains need.
        random_seed: The same seed gives the same bits on one kind of device.
        target: A chain whose best value is at or below this stops, and so do the others of its part soon after.
        exchange_every: With `replicas`: after so many steps, neighbours may exchange their temperatures.
        replicas: How many chains, each at a temperature of its own, exchange them (parallel tempering); None: chains
            cool by themselves.
        compile_limit_s: How long compiling may take.
        run_limit_s: How long the chains of a part may run.
        merge_limit_s: How long merging may take.
    """

    dimensions: int
    distribution: Literal["normal", "uniform"] = "uniform"
    precision: Literal["float32", "float64"] = "float32"
    max_steps: int = 100_000
    initial_temp: float = 1000
    min_temp: float = 0.0
    thread_count: int = 128
    threads_per_block: int | None = None
    blocks_per_grid: int | None = None
    random_seed: int = 42
    target: float | None = None
    exchange_every: int | None = None
    replicas: int | None = None
    compile_limit_s: int = 600
    run_limit_s: int = 24 * 3600
    merge_limit_s: int = 600

    @property
    def is_tempering(self) -> bool:
        """Whether chains exchange temperatures instead of cooling."""
        return self.replicas is not None


def check_settings(written: Written, *, file: str) -> tuple[AnnealSettings | None, list[Fault]]:
    """The settings, and everything that is wrong with them.

    Args:
        written: Each value with its line.
        file: Where they are written.
    """
    faults = []
    good: dict[str, Any] = {}
    for name, (value, line) in written.items():
        if name not in _RULES:
            near = get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            faults.append(Fault(file=file, line=line, where=name[:100], message=f"is not known{hint}"))
            continue
        is_right, allowed = _RULES[name]
        if is_right(value):
            good[name] = value
        else:
            faults.append(Fault(file=file, line=line, where=name, message=f"is {shown(value, 60)}", allowed=allowed))
    if "dimensions" not in written:
        faults.append(
            Fault(
                file=file, where="dimensions", message="is missing",
                allowed="how many random numbers each step gets, here or in the model",
            )
        )  # fmt: skip
    settings = AnnealSettings(**{"dimensions": 0, **good})
    faults += _together(settings, written, file)
    return (None if faults else settings), faults


def _rounded(value: float, precision: str) -> float:
    """A number as chains have it; infinity if it is too large."""
    try:
        found: float = struct.unpack("f", struct.pack("f", value))[0] if precision == "float32" else value
    except OverflowError:
        return math.inf
    return found


def _together(settings: AnnealSettings, written: Written, file: str) -> Iterator[Fault]:
    """What is wrong although each value is right."""

    def fault(name: str, message: str, allowed: str) -> Fault:
        return Fault(file=file, line=written.get(name, (None, None))[1], where=name, message=message, allowed=allowed)

    initial, least = (_rounded(one, settings.precision) for one in (settings.initial_temp, settings.min_temp))
    if math.isinf(initial):
        yield fault(
            "initial_temp", f"is {settings.initial_temp:g}, which float32 cannot hold", "below 3.4e+38, or float64"
        )
    elif initial <= least:
        message = f"is {settings.initial_temp:g}, and min_temp is {settings.min_temp:g}: no chain would move"
        yield fault("initial_temp", message, "above min_temp")
    threads, blocks = settings.threads_per_block, settings.blocks_per_grid
    if blocks is not None and threads is None:
        yield fault("blocks_per_grid", "is given without threads_per_block", "both, or neither")
    if blocks is not None and threads is not None and blocks * threads < settings.thread_count:
        message = f"is {blocks}, so {blocks * threads:,} threads for {settings.thread_count:,} chains"
        yield fault("blocks_per_grid", message, f"at least {math.ceil(settings.thread_count / threads):,}")
    if (settings.replicas is None) != (settings.exchange_every is None):
        name, other = ("exchange_every", "replicas") if settings.replicas is None else ("replicas", "exchange_every")
        yield fault(name, f"is given without {other}", "both, or neither")
    if settings.replicas is not None and settings.thread_count % settings.replicas:
        message = f"is {settings.thread_count:,}, which is not a multiple of {settings.replicas} replicas"
        yield fault("thread_count", message, f"a multiple of {settings.replicas}")
    if settings.replicas is not None and least <= 0:
        yield fault("min_temp", f"is {settings.min_temp:g}", "with replicas: above 0, the temperature of the coldest")


def as_written(settings: AnnealSettings) -> dict[str, Any]:
    """The settings as JSON; every name is there."""
    return asdict(settings)
