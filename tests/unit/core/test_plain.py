"""Dataclasses as plain values: the same JSON as by way of `dataclasses.asdict`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from gpuprov.core.plain import plain_fields


@dataclass(frozen=True)
class Inner:
    name: str
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...]
    labels: dict[str, Inner | None] = field(default_factory=dict)


def test_it_is_what_asdict_writes() -> None:
    value = Outer(inner=Inner("a", (1, 2)), many=(Inner("b"),), labels={"c": Inner("d"), "e": None})
    assert json.dumps(plain_fields(value)) == json.dumps(asdict(value))
