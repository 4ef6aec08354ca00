"""The policy as `gate up` writes it is what the runtime reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.runtime.rules import NAME, PolicyMount, Refusals, Rules, parse_rules, read_rules
from gpuprov.shapes import gate_policy as shapes
from gpuprov.shapes.base import encode

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_written_is_what_is_read() -> None:
    written = shapes.GatePolicy(
        touch="everything",
        mounts=(shapes.PolicyMount(source="/home", target="/h", read_only=True),),
        variables=shapes.PolicyVariables(set={"A": "a=b"}, force={"B": "one\ntwo"}),
        user="$WHO",
        refuse=shapes.PolicyRefusals(privileged=True, namespaces=("pid",), mounts_outside=("/data",)),
        gpus_per_project=2,
        remove=True,
    )
    assert parse_rules(json.loads(encode(written))) == Rules(
        touch="everything",
        mounts=(PolicyMount(source="/home", target="/h", read_only=True),),
        added={"A": "a=b"},
        forced={"B": "one\ntwo"},
        user="$WHO",
        refuse=Refusals(privileged=True, namespaces=("pid",), mounts_outside=("/data",)),
        gpus_per_project=2,
        remove=True,
    )
    assert parse_rules(json.loads(encode(shapes.GatePolicy()))) == Rules()


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"version": 2}', "[" * 100_000, '{"version": 1}'])
def test_a_broken_file_is_an_error_with_what_to_type(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / NAME).write_text(content)
    with pytest.raises(HostNotReady) as caught:
        read_rules(tmp_path)
    assert str(tmp_path / NAME) in caught.value.evidence
    assert "gate up --policy" in caught.value.fix
