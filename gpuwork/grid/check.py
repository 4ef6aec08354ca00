"""Whether what is written in a file of parameters can be run; every fault at once."""

from __future__ import annotations

import math
from collections import Counter
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, cast

from gpuprov.shapes.faults import Fault
from gpuwork.grid.draft import Grid
from gpuwork.grid.values import ALLOWED, RESERVED, name_fault, value_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuwork.grid.draft import GridDraft, WrittenValue
    from gpuwork.grid.values import ParameterValue

MOST_NAMES: Final = 1000
MOST_COMBINATIONS: Final = 10_000
NAMES_ALLOWED: Final = "letters, digits, _, . and -, a letter or _ first, 100 at most"


def find_faults(draft: GridDraft) -> list[Fault]:
    """Everything that is wrong, in the order of the lines."""
    faults = [*_too_many_names(draft), *_names(draft), *_requests(draft), *_single_values(draft), *_known(draft)]
    if not faults:
        faults += _too_many_combinations(draft)
    return sorted(faults, key=lambda fault: fault.line or 0)


def as_grid(draft: GridDraft) -> Grid:
    """A draft without faults as what it asks for."""
    return Grid(
        requests={name: tuple(cast("list[ParameterValue]", entry.value)) for name, entry in draft.requests.items()},
        defaults={name: cast("ParameterValue", entry.value) for name, entry in draft.defaults.items()},
        debug={name: cast("ParameterValue", entry.value) for name, entry in draft.debug.items()},
        random=draft.random,
    )


def _fault(draft: GridDraft, part: str, name: str, entry: WrittenValue, message: str, allowed: str = "") -> Fault:
    return Fault(file=draft.file, line=entry.line, where=f"{part}.{name}", message=message, allowed=allowed)


def _parts(draft: GridDraft) -> Iterator[tuple[str, str, WrittenValue]]:
    titles = draft.headings
    for title, entries in (
        (titles.requests, draft.requests),
        (titles.defaults, draft.defaults),
        (titles.debug, draft.debug),
    ):
        for name, entry in entries.items():
            yield title, name, entry


def _too_many_names(draft: GridDraft) -> Iterator[Fault]:
    for title in (draft.headings.requests, draft.headings.defaults):
        count = sum(part == title for part, _, _ in _parts(draft))
        if count > MOST_NAMES:
            yield Fault(
                file=draft.file, where=title, message=f"has {count} parameters", allowed=f"at most {MOST_NAMES}"
            )


def _names(draft: GridDraft) -> Iterator[Fault]:
    for title, name, entry in _parts(draft):
        message = name_fault(name)
        if message:
            yield _fault(draft, title, name, entry, message, "" if name in RESERVED else NAMES_ALLOWED)


def _requests(draft: GridDraft) -> Iterator[Fault]:
    title = draft.headings.requests
    for name, entry in draft.requests.items():
        values = entry.value
        if not isinstance(values, list):
            kind = value_fault(values) or f"is of type {type(values).__name__}"
            yield _fault(draft, title, name, entry, f"{kind}, not a list of values", "[first, second, ...]")
            continue
        if not values:
            yield _fault(draft, title, name, entry, "is an empty list", "at least one value")
        bad = dict.fromkeys(filter(None, map(value_fault, values)))
        for message in bad:
            yield _fault(draft, title, name, entry, f"has a value that {message}", ALLOWED)
        good = Counter(value for value in values if not value_fault(value))
        twice = [value for value, count in good.items() if count > 1]
        if twice:
            yield _fault(
                draft, title, name, entry, f"lists a value more than once: {', '.join(map(repr, twice))[:200]}"
            )


def _single_values(draft: GridDraft) -> Iterator[Fault]:
    titles = draft.headings
    for title, name, entry in _parts(draft):
        message = "" if title == titles.requests else value_fault(entry.value)
        if message:
            yield _fault(draft, title, name, entry, message, f"{ALLOWED}; a list belongs in {titles.requests}")


def _known(draft: GridDraft) -> Iterator[Fault]:
    titles = draft.headings
    asked = [*((titles.requests, *item) for item in draft.requests.items() if draft.defaults_required)]
    debug = [*((titles.debug, *item) for item in draft.debug.items())]
    known = set(draft.defaults)
    if not draft.defaults_required:
        known |= {*draft.requests, *(draft.random.draws if draft.random else ())}
    for title, name, entry in [*asked, *debug]:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield _fault(draft, title, name, entry, f"has no default in {titles.defaults}{hint}")


def _too_many_combinations(draft: GridDraft) -> Iterator[Fault]:
    count = math.prod(len(cast("list[object]", entry.value)) for entry in draft.requests.values())
    count *= draft.random.samples if draft.random else 1
    if count > MOST_COMBINATIONS:
        number = f"{count:,}" if count < 10**15 else f"about 10^{len(str(count)) - 1}"
        yield Fault(
            file=draft.file,
            line=next((entry.line for entry in draft.requests.values()), None),
            where=draft.headings.requests,
            message=f"asks for {number} combinations",
            allowed=f"at most {MOST_COMBINATIONS:,}",
        )
