"""How a model is annealed: what is wrong with the settings of a configuration."""

from __future__ import annotations

import math
import struct
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.anneal_settings import AnnealSettings
from gpuprov.shapes.base import changed
from gpuprov.shapes.faults import Fault, find_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Written = Mapping[str, tuple[object, int | None]]

NAMES: Final = AnnealSettings.__struct_fields__


def check_settings(written: Written, *, file: str) -> tuple[AnnealSettings | None, list[Fault]]:
    """The settings, and everything that is wrong with them.

    Args:
        written: Each value with its line.
        file: Where they are written.
    """
    faults = []
    good: dict[str, Any] = {}
    for name, (value, line) in written.items():
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            faults.append(Fault(file=file, line=line, where=name[:100], message=f"is not known{hint}"))
            continue
        values, found = find_faults(AnnealSettings, {"dimensions": 0, name: value}, file=file)
        faults += [changed(fault, line=line) for fault in found]
        if not found:
            good[name] = values[name]
    if "dimensions" not in written:
        faults.append(
            Fault(
                file=file, where="dimensions", message="is missing",
                allowed="how many random numbers each step gets, here or in the model",
            )
        )  # fmt: skip
    settings = AnnealSettings(**{"dimensions": 0, **good})
    faults += find_conflicts(settings, written, file=file)
    return (None if faults else settings), faults


def _rounded(value: float, precision: str) -> float:
    """A number as chains have it; infinity if it is too large."""
    try:
        found: float = struct.unpack("f", struct.pack("f", value))[0] if precision == "float32" else value
    except OverflowError:
        return math.inf
    return found


def find_conflicts(settings: AnnealSettings, written: Written, *, file: str) -> Iterator[Fault]:
    """What is wrong although each value is right.

    Args:
        settings: All of them.
        written: Those that somebody wrote, each with its line.
    """

    def fault(name: str, message: str, allowed: str) -> Fault:
        return Fault(file=file, line=written.get(name, (None, None))[1], where=name, message=message, allowed=allowed)

    if settings.random_seed >= 2**64:
        yield fault("random_seed", f"is {settings.random_seed}", "a whole number of 64 bits")
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
