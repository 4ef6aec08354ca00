"""This machine's simulated GPUs: which UUIDs they get, and by which words of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.machine.local import COUNT_VARIABLE, SEED_VARIABLE, LocalHost

if TYPE_CHECKING:
    from pathlib import Path


def uuids(root: Path, machine: str | None, **environment: str) -> list[str]:
    """Of the simulated GPUs of a machine with that id."""
    path = root / (machine or "none").strip() / "etc" / "machine-id"
    path.parent.mkdir(parents=True, exist_ok=True)
    if machine is not None:
        path.write_text(machine, encoding="utf-8")
    host = LocalHost(root=path.parents[1], environment=environment)
    return [unit.uuid for unit in host.gpus("simulated").units]


def test_each_machine_has_uuids_of_its_own_and_keeps_them(tmp_path: Path) -> None:
    first, second = uuids(tmp_path, "1" * 32), uuids(tmp_path, "2" * 32)
    assert len(set(first) | set(second)) == 2 * 4
    assert [uuid[12:] for uuid in first] == [uuid[12:] for uuid in second]
    assert uuids(tmp_path, "1" * 32) == first
    assert uuids(tmp_path, "1" * 32 + "\n") == first


def test_a_name_that_others_give_it_changes_no_gpu(tmp_path: Path) -> None:
    host = LocalHost(root=tmp_path, environment={})
    assert host.called("hoff").name == "hoff"
    assert host.called("hoff").gpus("simulated") == host.gpus("simulated")


def test_a_machine_without_a_usable_id_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "one")
    first = uuids(tmp_path, None)
    assert uuids(tmp_path, "") == first
    assert uuids(tmp_path, "ü") == first
    monkeypatch.setattr("platform.node", lambda: "two")
    assert not set(uuids(tmp_path, None)) & set(first)


def test_all_gpus_begin_with_those_of_the_user(tmp_path: Path) -> None:
    host = LocalHost(root=tmp_path, environment={COUNT_VARIABLE: "2", SEED_VARIABLE: "0123abcd"})
    asked = host.gpus("simulated").units
    assert [unit.uuid[:13] for unit in asked] == ["GPU-0123abcd-"] * 2
    assert host.all_gpus("simulated").units[:2] == asked


def test_a_given_seed_is_that_of_every_machine(tmp_path: Path) -> None:
    given = {SEED_VARIABLE: "0123abcd"}
    assert uuids(tmp_path, "1" * 32, **given) == uuids(tmp_path, "2" * 32, **given)
    assert uuids(tmp_path, "1" * 32, **{SEED_VARIABLE: ""}) == uuids(tmp_path, "1" * 32)


@pytest.mark.parametrize("variable", [SEED_VARIABLE, COUNT_VARIABLE])
@pytest.mark.parametrize("words", ["nonsense", "0123ABCD", "0123abc", "0123abcde", "GPU-0123", " 123abcd", "-1"])
def test_nonsense_is_refused_in_three_parts(tmp_path: Path, variable: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        LocalHost(root=tmp_path, environment={variable: words}).gpus("simulated")
    assert f"{variable}={words!r}" in caught.value.what
    assert caught.value.evidence
    assert caught.value.fix == f"unset {variable}"
