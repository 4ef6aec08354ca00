"""How the chains of a run are divided among its parts: by the rates that these measured on their devices.

A part begins on whatever node has room for it, so only there it is known how fast it is. Each part measures, leaves its
rate in the folder, and waits a while for the others. The first one that has seen all, or has waited long enough,
writes down the division, once; a part that comes later, or again, finds it there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.anneal import AnnealDivision
from gpuprov.shapes.base import encode, parse_json, read
from gpuwork.errors import StoreError
from gpuwork.shared_folder import make_folder, write_file, write_once
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuwork.anneal.order import AnnealedRun

DIVISION: Final = "division.json"
PATIENCE_S: Final = 20.0
_RATES: Final = "rates"
_LOOK_S: Final = 0.1


def divide(chains: int, rates: Sequence[float | None], *, together: int = 1) -> list[int]:
    """How many chains each part gets, at least one. Pure.

    Args:
        chains: How many there are; a multiple of `together`.
        rates: Of the parts; None for one that nobody knows, which counts as the mean of the others.
        together: Chains that stay in one part.
    """
    known = [rate for rate in rates if rate is not None and rate > 0]
    mean = sum(known) / len(known) if known else 1.0
    weights = [rate if rate is not None and rate > 0 else mean for rate in rates]
    left = chains // together - len(weights)  # each has one before the rest is divided
    exact = [left * weight / sum(weights) for weight in weights]
    shares = [int(share) for share in exact]
    by_rest = sorted(range(len(weights)), key=lambda part: (shares[part] - exact[part], part))
    for part in by_rest[: left - sum(shares)]:
        shares[part] += 1
    return [(share + 1) * together for share in shares]


def agree(run: AnnealedRun, part: int, rate: float, *, patience_s: float = PATIENCE_S) -> tuple[int, int]:
    """The first chain of a part and how many it has.

    Args:
        run: What the part is of.
        part: Its number.
        rate: As it measured it.
        patience_s: How long it waits for the rates of the others.
    """
    folder = run.folder / _RATES
    make_folder(folder)
    write_file(folder / str(part), repr(rate), durable=False)
    until = time.monotonic() + patience_s
    while not (run.folder / DIVISION).exists():
        rates = [_read_rate(run, number) for number in range(run.order.parts)]
        if None not in rates or time.monotonic() >= until:
            shares = divide(run.order.settings.thread_count, rates, together=run.order.settings.replicas or 1)
            write_once(run.folder / DIVISION, f"{encode(AnnealDivision(shares=tuple(shares))).decode()}\n")
            break
        time.sleep(_LOOK_S)
    return get_share(run, part)


def get_share(run: AnnealedRun, part: int) -> tuple[int, int]:
    """The same, once it is written down; a run of one part is not divided.

    Raises:
        StoreError: It is not there, or was changed.
    """
    if run.order.parts == 1:
        return 0, run.order.settings.thread_count
    try:
        shares = read(AnnealDivision, read_limited(run.folder / DIVISION) or b"").shares
        if len(shares) != run.order.parts or sum(shares) != run.order.settings.thread_count:
            raise ValueError(f"has {len(shares)} shares of {sum(shares)} chains")  # noqa: TRY301
    except ValueError as error:
        raise StoreError(
            f"the chains of {run.order.name} have no valid division",
            evidence=f"{DIVISION} {error}"[:500],
            fix=f"ls -l {run.folder}",
        ) from error
    return sum(shares[:part]), shares[part]


def _read_rate(run: AnnealedRun, part: int) -> float | None:
    try:
        told = parse_json(read_limited(run.folder / _RATES / str(part), limit=100) or b"")
    except ValueError:
        return None
    return float(told) if isinstance(told, (int, float)) and 0 < told < 1e15 else None  # noqa: PLR2004
