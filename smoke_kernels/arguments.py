"""The command line: parsed and checked before anything slow is imported."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from smoke_kernels.errors import UsageError
from smoke_kernels.options import Options

if TYPE_CHECKING:
    from collections.abc import Sequence

KERNELS: Final = ("matmul", "anneal", "membw")

_HELP: Final = "python3 -m smoke_kernels --help"
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LARGEST_SEED: Final = 2**32 - 1
_LONGEST_SECONDS: Final = 7 * 86400.0
_MOST_REPEATS: Final = 1_000_000
_MOST_SWEEPS: Final = 100_000
_MOST_DIGITS: Final = 12
_MOST_DEVICES: Final = 255


@dataclass(frozen=True, kw_only=True)
class Request:
    """A command line that makes sense."""

    kernels: tuple[str, ...]
    options: Options
    json: bool
    simulate: bool


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors have three parts."""

    def error(self, message: str) -> NoReturn:
        raise UsageError("invalid command line", evidence=message, remedy=_HELP)


def parse_request(arguments: Sequence[str]) -> Request:
    """Parse the command line.

    Raises:
        UsageError: an argument that no kernel can take.
    """
    given = _parser().parse_args(arguments)
    if given.size is not None and len(given.kernels) > 1:
        raise UsageError(
            "--size needs exactly one kernel",
            evidence=f"{', '.join(given.kernels)} were given, and their sizes have different meanings",
            remedy=f"python3 -m smoke_kernels {given.kernels[0]} --size {given.size}",
        )
    if (given.sweeps is not None or given.independent or given.one_replica) and "anneal" not in given.kernels:
        what = "--sweeps, --independent and --one-replica are only for anneal"
        raise UsageError(what, evidence=f"the kernel is {given.kernels[0]}", remedy=_HELP)
    if given.all_devices and given.device is not None:
        raise UsageError(
            "--device and --all-devices are mutually exclusive",
            evidence=f"--device {given.device} --all-devices",
            remedy=f"python3 -m smoke_kernels {given.kernels[0]} --all-devices",
        )
    if given.independent and given.one_replica:
        raise UsageError(
            "--independent and --one-replica are mutually exclusive",
            evidence="a single replica always has a random number for every spin",
            remedy="python3 -m smoke_kernels anneal --one-replica",
        )
    options = Options(
        size=given.size,
        sweeps=given.sweeps,
        repeats=given.repeats,
        seconds=given.seconds,
        seed=given.seed,
        quick=given.quick,
        independent=given.independent,
        one_replica=given.one_replica,
        device=given.device or 0,
        all_devices=given.all_devices,
        stand_for=given.stand_for,
        tolerance=given.tolerance,
    )
    return Request(
        kernels=tuple(dict.fromkeys(given.kernels)), options=options, json=given.json, simulate=given.simulate
    )


def _parser() -> _Parser:
    parser = _Parser(
        prog="python3 -m smoke_kernels",
        description="CUDA kernels that verify that a GPU computes correctly.",
        allow_abbrev=False,
    )
    parser.add_argument("kernels", nargs="+", choices=KERNELS, metavar="KERNEL", help=", ".join(KERNELS))
    parser.add_argument(
        "--size", type=_size, help="matmul: rows; anneal: side length, a power of two; membw: bytes, or 16K, 256M, 1G"
    )
    parser.add_argument("--sweeps", type=_sweeps, help="anneal: sweeps over the lattice")
    parser.add_argument("--seconds", type=_seconds, default=0.0, help="minimum duration")
    parser.add_argument("--repeats", type=_repeats, help="minimum number of runs")
    parser.add_argument("--seed", type=_seed, default=Options.seed, help="seed of the problem (golden values: seed 1)")
    parser.add_argument(
        "--tolerance", type=_tolerance, help="fail below (1 - TOLERANCE) of the known-good rate of this GPU"
    )
    parser.add_argument("--independent", action="store_true", help="anneal: a separate random number for every replica")
    parser.add_argument(
        "--one-replica", action="store_true", help="anneal: one replica, a random number for every spin"
    )
    parser.add_argument(
        "--device", type=_device, help="index of the GPU among those that CUDA shows, from 0 (the default)"
    )
    parser.add_argument(
        "--all-devices", action="store_true", help="run on every GPU that CUDA shows, one after the other"
    )
    parser.add_argument(
        "--stand-for", type=_names, default=(), metavar="UUID,...", help="simulator: run once for each of these GPUs"
    )
    parser.add_argument("--quick", action="store_true", help="small problems")
    parser.add_argument("--simulate", action="store_true", help="run on numba's simulator; needs no GPU")
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    return parser


def _size(text: str) -> int:
    unit = _UNITS.get(text[-1:].upper(), 0)
    digits = text[:-1] if unit else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > _MOST_DIGITS or int(digits) == 0:
        message = f"a size must be a whole number above 0, optionally with K, M or G, not {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(digits) * (unit or 1)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not all(names) or len(set(names)) < len(names) or len(names) > _MOST_DEVICES + 1:
        message = f"--stand-for takes up to {_MOST_DEVICES + 1} names separated by commas, not {text[:80]!r}"
        raise argparse.ArgumentTypeError(message)
    return names


def _sweeps(text: str) -> int:
    return _whole_number(text, what="sweeps", least=1, most=_MOST_SWEEPS)


def _repeats(text: str) -> int:
    return _whole_number(text, what="repeats", least=1, most=_MOST_REPEATS)


def _device(text: str) -> int:
    return _whole_number(text, what="the device", least=0, most=_MOST_DEVICES)


def _seed(text: str) -> int:
    return _whole_number(text, what="the seed", least=0, most=_LARGEST_SEED)


def _whole_number(text: str, *, what: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or not least <= int(text) <= most:
        message = f"{what} must be a whole number from {least} to {most}, not {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _seconds(text: str) -> float:
    return _real(text, what="seconds", most=_LONGEST_SECONDS)


def _tolerance(text: str) -> float:
    return _real(text, what="the tolerance", most=1.0)


def _real(text: str, *, what: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        message = f"{what} must be a number from 0 to {most:g}, not {text!r}"
        raise argparse.ArgumentTypeError(message)
    return value
