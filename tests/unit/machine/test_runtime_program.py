"""The policy beside the runtime: kept, replaced and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.machine.runtime_program import RuntimeProgram
from gpuprov.runtime.policy import Policy
from gpuprov.shapes.gate_policy import GatePolicy, PolicyRefusals

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
RULES = GatePolicy(touch="everything", refuse=PolicyRefusals(privileged=True))


def write(program: RuntimeProgram, rules: GatePolicy | None) -> tuple[str, ...]:
    return program.write(Policy(engines=()), runc=program.folder / "runc", rules=rules)


def test_a_policy_is_found_again_until_it_is_removed(tmp_path: Path) -> None:
    program = RuntimeProgram(folder=tmp_path / "runtime")
    assert program.find_rules() is None
    write(program, None)
    assert program.find_rules() is None
    assert "TOUCH=''\nEXEC=''\n" in (program.folder / "gpuprov-runtime").read_text()
    assert "put the policy into force" in write(program, RULES)
    assert program.find_rules() == RULES
    assert "TOUCH=everything\nEXEC=1\n" in (program.folder / "gpuprov-runtime-default").read_text()
    assert write(program, RULES) == ()
    assert "removed the policy" in write(program, None)
    assert program.find_rules() is None
    assert write(program, None) == ()


@pytest.mark.parametrize("content", [None, "", "{}", "[" * 100_000])
def test_a_policy_that_nobody_can_read_is_not_taken_for_none(tmp_path: Path, content: str | None) -> None:
    program = RuntimeProgram(folder=tmp_path / "runtime")
    write(program, RULES)
    place = program.folder / "rules.json"
    place.unlink()
    if content is not None:
        place.write_text(content)
    with pytest.raises(HostNotReady) as caught:
        program.find_rules()
    assert "gate up --policy none" in caught.value.fix
