"""`cluster down --purge` asks before it removes results; `cluster status` says where they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
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
        assert f"{PLACE} with all its contents" in said
        assert "gpuprov cluster down lab --purge --yes" in said
    assert sharing.world.names == ["c000"]
    assert f"removed the folder {PLACE}" in sharing((*DOWN, "--yes"), capsys)
    assert sharing.world.host.folders.there == {}


def test_a_folder_is_asked_for_even_where_the_cluster_is_gone(
    sharing: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    sharing(("cluster", "down", "--yes"), capsys)
    assert sharing(("cluster", "down"), capsys) == "unchanged\n"
    sharing(DOWN, capsys, codes=(2,))
    assert set(sharing.world.host.folders.there) == {PLACE}
    assert f"removed the folder {PLACE}" in sharing((*DOWN, "--yes"), capsys)


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
    assert main(["cluster", "down", "--yes"], host=sharing.world.host) == 0
    said = capsys.readouterr()
    assert f"kept {PLACE}" in said.err
    assert PLACE not in said.out
    assert set(sharing.world.host.folders.there) == {PLACE}
