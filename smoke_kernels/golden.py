"""The shipped golden values: what each problem's digest has to be."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from smoke_kernels.hashing import render_digest
from smoke_kernels.result import Check


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    text = (resources.files("smoke_kernels") / "data" / "golden.json").read_text(encoding="utf-8")
    table: dict[str, list[dict[str, Any]]] = json.loads(text)
    return table


def find_golden(kernel: str, **key: int) -> dict[str, Any] | None:
    """Return the shipped entry of a kernel whose fields equal `key`, None where the table has none."""
    for entry in _table()[kernel]:
        if all(entry[name] == value for name, value in key.items()):
            return entry
    return None


def check_digests(digests: list[int], golden: int) -> tuple[Check, Check]:
    """Compare every run's digest with the golden value, and the runs with each other."""
    wrong = [render_digest(value) for value in digests if value != golden]
    distinct = len(set(digests))
    return (
        Check(
            name="digest",
            passed=bool(digests) and not wrong,
            evidence=f"{len(digests) - len(wrong)} of {len(digests)} runs gave {render_digest(golden)}"
            + (f", the first differing value is {wrong[0]}" if wrong else ""),
        ),
        Check(name="repeats", passed=distinct == 1, evidence=f"{distinct} distinct digests in {len(digests)} runs"),
    )
