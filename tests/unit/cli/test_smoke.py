from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.smoke import render_results
from gpuprov.shapes.smoke_run import SmokeResult
from gpuprov.stories import smoke

if TYPE_CHECKING:
    from gpuprov.verify.smoke_result import SmokeOrder

DOCUMENT = {
    "seconds": {"total": 1.25},
    "results": [
        {
            "parameters": {"size": 64, "repeats": 2},
            "proof": {"digest": "80168194e466a08b"},
            "rate": {"median": 41234.5, "unit": "GFLOP/s"},
            "seconds": {"prepare": 0.5, "device": 0.75},
        },
        {
            "parameters": {"size": 64, "repeats": 2},
            "proof": {"digest": "80168194e466a08b"},
            "rate": None,
            "seconds": {"device": 1.5},
        },
    ],
}
GOOD = SmokeResult(place="c000", verdict="pass", simulated=False, evidence="good", document=DOCUMENT)
BAD = SmokeResult(place="c001", verdict="unknown", simulated=True, evidence="nothing came", fix="gpuprov shell c001")


def give(monkeypatch: pytest.MonkeyPatch, *results: SmokeResult) -> list[tuple[str, SmokeOrder, Any]]:
    asked: list[tuple[str, SmokeOrder, Any]] = []

    def smoke_nodes(_driver: object, cluster: str, order: SmokeOrder, *, nodes: Any, reporter: object) -> Any:
        assert reporter
        asked.append((cluster, order, nodes))
        return results

    monkeypatch.setattr(smoke, "smoke_nodes", smoke_nodes)
    monkeypatch.setattr("gpuprov.fleet.here.open_cluster_here", lambda *_: None)
    return asked


def test_a_table_and_what_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give(monkeypatch, GOOD, BAD)
    assert main(["smoke", "matmul"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "NODE  GPU  VERDICT            SIZE  REPEATS  DIGEST            RATE           SECONDS",
        "c000  0    pass               64    2        80168194e466a08b  41234 GFLOP/s  1.2",
        "c000  1    pass               64    2        80168194e466a08b  -              1.5",
        "c001  0    unknown SIMULATED  -     -        -                 -              -",
        "c001: nothing came",
        "  fix: gpuprov shell c001",
    ]


def test_json_and_what_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = give(monkeypatch, GOOD)
    arguments = ["--size", "1G", "--seconds", "3", "--cluster", "x", "--json"]
    assert main(["smoke", "membw", "c[000-001]", *arguments]) == 0
    ((cluster, order, nodes),) = asked
    assert (cluster, order.kernel, order.size, order.seconds, nodes) == ("x", "membw", "1G", 3.0, ("c000", "c001"))
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["passed"], document["simulated"]) == ("gpuprov.smoke-run/v1", True, False)
    assert document["results"][0]["document"] == DOCUMENT


def test_here_the_simulation_is_announced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(
        smoke,
        "smoke_local",
        lambda _wanted, host: SmokeResult(place="local", verdict="pass", simulated=host.simulated, evidence="good"),
    )
    assert main(["smoke", "matmul", "--local", "--gpu-mode", "simulated"]) == 0
    said = capsys.readouterr()
    assert "GPUs are SIMULATED" in said.err
    assert "local  0    pass SIMULATED" in said.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["smoke"],
        ["smoke", "burn"],
        ["smoke", "matmul", "--local", "c000"],
        ["smoke", "matmul", "--gpu-mode", "simulated"],
        ["smoke", "matmul", "C000!"],
        ["smoke", "matmul", "--seconds", "long"],
    ],
)
def test_bad_arguments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    asked = give(monkeypatch, GOOD)
    assert main(arguments) == 2
    assert asked == []
    error = capsys.readouterr().err
    assert "fix: " in error or "Usage: " in error


@pytest.mark.parametrize("document", [None, {}, {"results": []}, {"results": [{}]}, {"results": [{"rate": 3}]}])
def test_a_document_without_measures_leaves_the_cells_empty(document: dict[str, Any] | None) -> None:
    result = SmokeResult(place="c000", verdict="fail", simulated=False, evidence="e", fix="f", document=document)
    assert render_results([result]).splitlines()[1].split() == [
        "c000",
        "0",
        "fail",
        "-",
        "-",
        "-",
        "-",
        "-",
    ]
