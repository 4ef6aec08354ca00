"""Copy a pattern on the device and prove that every word arrived."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.backend import SIMULATED, poison, poisoned, u32
from smoke_kernels.errors import UsageError
from smoke_kernels.golden import check_digests, find_golden
from smoke_kernels.hashing import counter_words, digest, render_digest, stream_key
from smoke_kernels.hashing_device import device_digest
from smoke_kernels.membw.kernel import CHUNK_WORDS, THREADS, copy_kernel, fill_kernel
from smoke_kernels.membw.pattern import STREAM
from smoke_kernels.multiprocessors import Census, owners_of
from smoke_kernels.result import KernelResult, Proof
from smoke_kernels.timing import Stopwatch, repetitions

if TYPE_CHECKING:
    from smoke_kernels.backend import DeviceArray
    from smoke_kernels.options import Options
    from smoke_kernels.result import GoldenSource

SIZE_STEP: Final = 16 * 1024
LARGEST_SIZE: Final = 8 * 1024**3

_ROW_WORDS: Final = 4096
_PIECE_WORDS: Final = 1 << 22
_BLOCKS: Final = 1 if SIMULATED else 65535


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What came out: a digest of each copy and of each batch that was timed."""

    digests: list[int]
    rounds: int
    stopwatch: Stopwatch


def default_size(*, quick: bool) -> int:
    """Return the bytes that are copied when the user does not say."""
    if SIMULATED:
        return SIZE_STEP if quick else 4 * SIZE_STEP
    return 256 * 1024**2 if quick else 1024**3


def run_membw(options: Options) -> KernelResult:
    """Fill, copy, and digest the copy on the device.

    Raises:
        UsageError: the size is not one this kernel can take.
    """
    size = options.size or default_size(quick=options.quick)
    repeats = options.repeats or (1 if SIMULATED else 10)
    if size % SIZE_STEP or not SIZE_STEP <= size <= LARGEST_SIZE:
        raise UsageError(
            f"membw does not support size {size}",
            evidence=f"sizes are bytes, multiples of {SIZE_STEP} (16K) up to {LARGEST_SIZE} (8G)",
            remedy="python3 -m smoke_kernels membw --size 1G",
        )
    started = time.perf_counter()
    golden, source = golden_digest(size, options.seed)
    prepared = time.perf_counter()
    census = Census()
    runs = _copy(size, options, repeats=repeats, golden=golden, census=census)
    ran = time.perf_counter()
    return KernelResult(
        kernel="membw",
        simulated=SIMULATED,
        parameters={"size": size, "seed": options.seed, "repeats": runs.rounds, "batch": runs.stopwatch.launches},
        proof=Proof(
            digest=render_digest(runs.digests[-1]),
            golden=render_digest(golden),
            golden_source=source,
            checks=(*check_digests(runs.digests, golden), census.check()),
            details={"distinct_digests": len(set(runs.digests)), **census.details()},
        ),
        rate=runs.stopwatch.rate("GB/s", 2 * size / 1e9),
        seconds={"prepare": prepared - started, "device": ran - prepared, "prove": 0.0},
    )


def golden_digest(size: int, seed: int) -> tuple[int, GoldenSource]:
    """Return the digest the copy must have: shipped, or computed here where the table has none."""
    entry = find_golden("membw", seed=seed, size=size)
    if entry is not None:
        return int(entry["digest"], 16), "shipped"
    return digest(counter_words(size // 4, seed=seed, stream=STREAM)), "computed"


def _copy(size: int, options: Options, *, repeats: int, golden: int, census: Census) -> Runs:
    """Copy at least `repeats` times: each time once to look at it, and then in a batch to time it."""
    count = size // 4
    source, target = poisoned(count), poisoned(count)
    fill_kernel[min(_BLOCKS, count // THREADS), THREADS](source, u32(stream_key(options.seed, STREAM)), u32(count))
    blocks = min(_BLOCKS, count // CHUNK_WORDS)
    owners = owners_of(blocks)
    digests: list[int] = []
    stopwatch = Stopwatch()

    def copy() -> None:
        copy_kernel[blocks, THREADS](source, target, owners, u32(count))

    def digest_target() -> None:
        digests.append(device_digest(target, rows=count // _ROW_WORDS, columns=_ROW_WORDS, stride=_ROW_WORDS))

    for rounds in repetitions(repeats=repeats, seconds=options.seconds):  # noqa: B007  (the last one is told)
        poison(target)
        copy()
        digest_target()
        who = owners.copy_to_host()
        census.add(who)
        # To find where a copy is wrong takes the host some seconds: once is enough.
        if digests[-1] != golden and not census.wrong:
            census.blame(who, (chunk % blocks for chunk in wrong_chunks(target, count, options.seed)))
        if stopwatch.time(copy, reset=lambda: poison(target)):
            digest_target()
    return Runs(digests=digests, rounds=rounds, stopwatch=stopwatch)


def wrong_chunks(target: DeviceArray, count: int, seed: int) -> set[int]:
    """Return the numbers of the chunks that are not the pattern, looked at on the host, piece by piece."""
    wrong: set[int] = set()
    for start in range(0, count, _PIECE_WORDS):
        piece = target[start : start + _PIECE_WORDS].copy_to_host()
        expected = counter_words(piece.size, seed=seed, stream=STREAM, start=start)
        wrong |= set(((np.flatnonzero(piece != expected) + start) // CHUNK_WORDS).tolist())
    return wrong
