"""The options of `gpuprov verify`, over a workflow that is told what to answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.cli.main import EXIT_INTERRUPTED, main
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, HostNotReady
from gpuprov.core.report_file import ReportFile
from gpuprov.shapes.verify import Check, NodeReport, Report
from tests.schemas import validate

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.verify import CheckStatus, Level


def report(*statuses: CheckStatus, level: Level = "quick") -> Report:
    nodes = tuple(
        NodeReport(
            node=f"c{number:03d}",
            access="simulated",
            gpus=("GPU-1",),
            checks=(
                Check(id="device-open", layer="devices", status=status, severity="critical", evidence="e", fix="f"),
            ),
            duration_s=1.0,
        )
        for number, status in enumerate(statuses)
    )
    return Report(cluster="lab", nodes=nodes, duration_s=1.0, level=level)


class Workflow:
    """Stands in for verify_cluster and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Report | BaseException] = [report("pass", "pass")]
        self.asked: list[dict[str, Any]] = []

    def __call__(self, _driver: object, cluster: str, **asked: Any) -> Report:
        self.asked.append({"cluster": cluster, **asked})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Nodes:
    def list_nodes(self) -> list[Any]:
        from gpuprov.drivers.base import NodeState

        return [NodeState(name=f"c00{n}", status="running", labels={"gpuprov.cluster": "lab"}) for n in range(2)]

    def list_networks(self) -> list[Any]:
        return []


@pytest.fixture
def workflow(monkeypatch: pytest.MonkeyPatch) -> Workflow:
    workflow = Workflow()
    monkeypatch.setattr("gpuprov.lifecycle.verify.verify_cluster", workflow)
    monkeypatch.setattr("gpuprov.stories.verify.open_cluster_here", lambda *_: Nodes())
    nodes = cast("Driver", Nodes())
    monkeypatch.setattr("gpuprov.stories.verify.observe_here", lambda *_: (nodes, observe_cluster(nodes, "lab")))
    return workflow


def test_the_level_is_handed_on_and_the_exit_code_is_the_verdict(workflow: Workflow) -> None:
    assert main(["verify", "c[000-001]", "--level", "full", "--seconds", "2.5"]) == 0
    (asked,) = workflow.asked
    assert list(asked["nodes"]) == ["c000", "c001"]
    assert (asked["work"].level, asked["work"].seconds) == ("full", 2.5)
    workflow.answers = [report("pass", "unknown")]
    assert main(["verify"]) == 1
    assert workflow.asked[1]["work"].level == "quick"


def test_reports_are_written_and_said(workflow: Workflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    xml, html = tmp_path / "a.xml", tmp_path / "a.html"
    workflow.answers = [report("fail")]
    assert main(["verify", "--junit", str(xml), "--html", str(html), "--json"]) == 1
    assert 'failures="1"' in xml.read_text()
    assert "fail SIMULATED: cluster lab" in html.read_text()
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"] == "fail"
    assert f"written: {xml}" in err


@pytest.mark.parametrize("option", ["--junit", "--html"])
def test_an_unwritable_path_is_refused_before_the_run(
    option: str, workflow: Workflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", option, str(tmp_path / "absent" / "a"), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert all(error[part] for part in ("what", "evidence", "fix"))
    assert workflow.asked == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--level", "hard"],
        ["--seconds", "5"],
        ["--level", "full", "--seconds", "nan"],
        ["--level", "full", "--seconds", "0"],
        ["--level", "full", "--seconds", "-1"],
        ["--level", "full", "--seconds", "1e9"],
        ["--watch", "nan"],
        ["--watch", "inf"],
        ["--watch", "0"],
        ["--watch", "soon"],
        ["--junit", "same", "--html", "./same"],
        ["--html", ""],
    ],
)
def test_bad_options_are_refused_before_the_run(
    arguments: list[str], workflow: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verify", *arguments]) == 2
    assert workflow.asked == []
    assert [path.name for path in tmp_path.iterdir() if path.name != "log"] == []


def test_watch_prints_changes_only_and_ends_with_130(
    workflow: Workflow, capsys: pytest.CaptureFixture[str], logs: Path
) -> None:
    workflow.answers = [
        report("pass", "pass"),
        report("pass", "pass"),
        EngineError("LXD is unreachable"),
        report("pass", "fail"),
        KeyboardInterrupt(),
    ]
    assert main(["verify", "--watch", "0.01"]) == EXIT_INTERRUPTED
    out = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert out == [
        "c000: absent -> pass SIMULATED",
        "c001: absent -> pass SIMULATED",
        "the cluster cannot be checked: LXD is unreachable",
        "the cluster responds again",
        "c001: pass -> fail SIMULATED",
        "c001:   device-open: fail: e",
        "c001:     fix: f",
    ]
    (log,) = logs.iterdir()
    assert len(log.read_text().splitlines()) == len(out) + 2  # the command line, and that it was interrupted


def test_watch_keeps_files_up_to_date_and_survives_a_disk_that_is_full(
    workflow: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    xml, html = tmp_path / "a.xml", tmp_path / "a.html"
    seen: list[tuple[bool, bool]] = []

    def look(path: Path) -> bool:
        return "c000" in path.read_text() if path.exists() else False

    class Full(ReportFile):
        def write(self, content: str | bytes) -> None:
            seen.append((look(xml), look(html)))
            if len(seen) in (3, 4):
                raise HostNotReady("the report could not be written to a.xml", evidence="No space left", fix="df -h")
            super().write(content)

    monkeypatch.setattr("gpuprov.core.report_file.ReportFile", Full)
    workflow.answers = [report("pass"), report("pass"), report("pass"), report("fail"), KeyboardInterrupt()]
    assert main(["verify", "--watch", "0.01", "--junit", str(xml), "--html", str(html)]) == EXIT_INTERRUPTED
    # Round 1 writes both, in rounds 2 and 3 the first write fails, round 4 writes both again.
    assert seen == [(False, False), (True, False), (True, True), (True, True), (True, True), (True, True)]
    assert 'failures="1"' in xml.read_text()
    assert "fail SIMULATED" in html.read_text()
    out, err = capsys.readouterr()
    assert "c000: pass -> fail SIMULATED" in out
    assert err.count("warning: the report could not be written to a.xml: No space left") == 1


def test_watch_as_json_is_a_document_a_line(workflow: Workflow, capsys: pytest.CaptureFixture[str]) -> None:
    workflow.answers = [report("pass"), report("fail"), KeyboardInterrupt()]
    assert main(["verify", "--watch", "0.01", "--json"]) == EXIT_INTERRUPTED
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (validate(first), validate(second)) == ("gpuprov.watch/v1", "gpuprov.watch/v1")
    assert first["host"]
    assert (second["changes"][0]["before"], second["changes"][0]["after"]) == ("pass", "fail")
    assert second["changes"][0]["problems"] == [{"id": "device-open", "status": "fail", "evidence": "e", "fix": "f"}]


def test_an_engine_that_goes_away_is_a_line_of_the_watch(
    workflow: Workflow, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow.answers = [report("pass"), EngineError("LXD is unreachable", evidence="e"), KeyboardInterrupt()]
    assert main(["verify", "--watch", "0.01", "--json"]) == EXIT_INTERRUPTED
    _, away = map(json.loads, capsys.readouterr().out.splitlines())
    assert validate(away) == "gpuprov.watch/v1"
    assert (away["changes"][0]["node"], away["changes"][0]["after"]) == (None, "error")
