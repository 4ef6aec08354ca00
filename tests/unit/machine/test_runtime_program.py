"""The policy beside the runtime: kept, replaced and removed."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.machine.runtime_program import RuntimeProgram
from gpuprov.runtime.settings import Settings
from gpuprov.shapes.gate_policy import GatePolicy, PolicyRefusals

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
RULES = GatePolicy(touch="everything", refuse=PolicyRefusals(privileged=True))


def write(program: RuntimeProgram, rules: GatePolicy | None) -> tuple[str, ...]:
    return program.write(Settings(engines=()), runc=program.folder / "runc", rules=rules)


@pytest.mark.parametrize("umask", [0, 0o077])
def test_whatever_the_umask_root_alone_can_change_what_it_runs(tmp_path: Path, umask: int) -> None:
    program = RuntimeProgram(folder=tmp_path / "var/runtime")
    before = os.umask(umask)
    try:
        write(program, RULES)
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    (compiled,) = program.folder.glob("lib-*/gpuprov/runtime/__pycache__")
    assert [*compiled.glob("create.*.pyc")]
    for path in (program.folder.parent, program.folder, *program.folder.rglob("*")):
        programs = ("gpuprov-runtime", "gpuprov-runtime-default", "nvidia-smi")
        whole = path.is_dir() or path.name in programs
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if whole else 0o644), path


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


def test_what_an_earlier_gpuprov_left_is_replaced(tmp_path: Path) -> None:
    """Its settings had another name, and its policy had no `remove`."""
    program = RuntimeProgram(folder=tmp_path / "runtime")
    write(program, RULES)
    (program.folder / "settings.json").rename(program.folder / "policy.json")
    next(program.folder.glob("lib-*")).rename(program.folder / "lib-of-earlier")
    rules = program.folder / "rules.json"
    said = json.loads(rules.read_text())
    del said["remove"]
    rules.write_text(json.dumps(said))
    assert (program.is_current(), program.check_command(), program.find_rules()) == (False, None, RULES)
    write(program, program.find_rules())
    names = {path.name for path in program.folder.iterdir()}
    assert (program.is_current(), names & {"settings.json", "policy.json", "lib-of-earlier"}) == (
        True,
        {"settings.json"},
    )
    assert json.loads(rules.read_text())["remove"] is False


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
