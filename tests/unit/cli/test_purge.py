"""`cluster down --purge` asks before it removes results; `cluster status` says where they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.session import Session
from tests.schemas import validate

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed

PLACE = "/srv/gpuprov/lab"
DOWN = ("cluster", "down", "--purge")


@pytest.fixture
def sharing(typed: Typed, capsys: pytest.CaptureFixture[str]) -> Typed:
    typed(("cluster", "up", "-n", "1", "--share", "--gpu-mode", "simulated", "--no-verify"), capsys)
    return typed


def test_elsewhere_than_on_a_terminal_it_needs_yes(sharing: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("--force",)):
        assert main([*DOWN, *words], host=sharing.world.host) == 2
        said = capsys.readouterr().err
        assert f"the folder {PLACE} would be removed with all its contents" in said
        assert "gpuprov cluster down lab --purge --yes" in said
    assert sharing.world.names == ["c000"]
    assert f"removed the folder {PLACE}" in sharing((*DOWN, "--yes"), capsys)
    assert sharing.world.host.folders.there == {}


@pytest.mark.parametrize("answer", [True, False])
def test_a_terminal_is_asked(
    sharing: Typed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, answer: bool
) -> None:
    monkeypatch.setattr(Session, "interactive", True)
    asked: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        assert err, "stdout is the result's"
        asked.append(question)
        return answer

    monkeypatch.setattr("click.confirm", confirm)
    capsys.readouterr()
    assert main(list(DOWN), host=sharing.world.host) == (0 if answer else 2)
    assert asked == [f"Remove {PLACE} with all its contents as well?"]
    assert sharing.world.names == ([] if answer else ["c000"])
    assert set(sharing.world.host.folders.there) == (set() if answer else {PLACE})


def test_nothing_is_asked_where_there_is_no_folder(
    typed: Typed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed.world.begin_with(1)
    monkeypatch.setattr("click.confirm", lambda *_, **__: pytest.fail("asked"))
    typed(DOWN, capsys)
    assert typed.world.names == []


def test_status_names_the_folder_for_people_and_for_programs(
    sharing: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"shared folder: {PLACE} of the host, /shared in the nodes" in sharing(("cluster", "status"), capsys)
    document = json.loads(sharing(("--json", "cluster", "status"), capsys))
    assert validate(document) == "gpuprov.cluster-status/v1"
    assert document["shared_folder"] == PLACE
    sharing.world.up(1)
    assert "shared folder" not in sharing(("cluster", "status"), capsys)
    assert json.loads(sharing(("--json", "cluster", "status"), capsys))["shared_folder"] is None


def test_down_says_on_stderr_where_the_results_are(sharing: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "down"], host=sharing.world.host) == 0
    said = capsys.readouterr()
    assert f"kept {PLACE}" in said.err
    assert PLACE not in said.out
    assert set(sharing.world.host.folders.there) == {PLACE}
