"""What `gpuprov play` shows of a run, over a run that is made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuprov.cli.main import main
from gpuprov.provision.events import HostStats, TaskEvent
from gpuprov.provision.site import HostResult, Site, SiteResult
from tests.schemas import validate

STATS = HostStats(host="c000", ok=2, changed=1, failed=0, unreachable=0, skipped=3)
CHANGE = TaskEvent(kind="changed", host="c000", role="", task="Make", diff="+x")
LOST = TaskEvent(kind="unreachable", host="c001", role="base", task="Ask", message="no route")
WELL = HostResult(stats=STATS)
AWAY = HostResult(stats=HostStats(host="c001", ok=0, changed=0, failed=0, unreachable=1, skipped=0), problem=LOST)


def give(monkeypatch: pytest.MonkeyPatch, *hosts: HostResult, log: Path | None = None) -> None:
    result = SiteResult(hosts=hosts, changes=(CHANGE,), log=log)
    monkeypatch.setattr("gpuprov.stories.run_playbook.run_playbook", lambda *_, **__: result)


def test_a_host_that_fails_is_in_the_table_and_an_error_of_three_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], logs: Path
) -> None:
    give(monkeypatch, WELL, AWAY, log=Path("/tmp/log"))
    assert main(["play", "site.yml"]) == 5
    out, err = capsys.readouterr()
    assert out.splitlines()[1:] == [
        "c000  changed      2   1        0       3",
        "c001  unreachable  0   0        0       0",
    ]
    assert err.startswith("error: 1 of 2 hosts failed: c001\nevidence: ")
    assert "\nfix: " in err
    assert "HostsFailed" in next(logs.glob("*.log")).read_text()


def test_the_document_has_the_hosts_and_the_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, WELL, AWAY, log=Path("/tmp/log"))
    assert main(["play", "site.yml", "--json"]) == 5
    document = json.loads(capsys.readouterr().out)
    assert validate(document) == "gpuprov.play/v1"
    assert document["host"]
    assert document["play"]["hosts"]["c001"]["task"] == "base: Ask"
    assert document["error"]["what"] == "1 of 2 hosts failed: c001"
    assert document["error"]["exit_code"] == 5


@pytest.mark.parametrize(
    ("options", "cluster"),
    [((), "lab"), (("--cluster", "two"), "two"), (("--all-clusters",), ""), (("-i", "x"), "lab")],
)
def test_it_runs_on_one_cluster_unless_told_otherwise(
    options: tuple[str, ...], cluster: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Site] = []

    def run(site: Site, **_: object) -> SiteResult:
        asked.append(site)
        return SiteResult(hosts=(WELL,), changes=())

    monkeypatch.setattr("gpuprov.stories.run_playbook.run_site", run)
    (tmp_path / "site.yml").touch()
    assert main(["play", str(tmp_path / "site.yml"), *options]) == 0
    (site,) = asked
    assert (site.cluster, site.inventories) == (cluster, ("x",) if "-i" in options else ())


def test_options_that_exclude_each_other_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (("--cluster", "two", "--all-clusters"), ("-i", "x", "--cluster", "two")):
        assert main(["play", "site.yml", *options]) == 2
        assert "exclude each other" in capsys.readouterr().err
    assert main(["play", "site.yml", "--cluster", "../x"]) == 2


def test_a_run_that_ends_well_has_no_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give(monkeypatch, WELL)
    assert main(["play", "site.yml", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert validate(document) == "gpuprov.play/v1"
    assert document["play"]["changes"] == [{"host": "c000", "task": "Make", "diff": "+x"}]
    assert "error" not in document
