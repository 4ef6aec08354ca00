"""Dataclasses and shapes as plain values: the same JSON as by way of `dataclasses.asdict`, or of `write`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from gpuprov.core.fingerprint import plain_fields
from gpuprov.shapes.base import write
from gpuprov.shapes.node import Exposure, Mount


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


def test_shapes_within_are_written_as_their_own_json() -> None:
    mount, port = Mount(source="/a", target="/b"), Exposure(host_port=1, node_port=2)
    value = Outer(inner=Inner("a"), many=(), labels={"mounts": (mount,), "port": port})  # type: ignore[dict-item]
    assert plain_fields(value)["labels"] == {"mounts": [write(mount)], "port": write(port)}
