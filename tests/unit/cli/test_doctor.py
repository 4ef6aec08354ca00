from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.workflows import doctor
from gpuprov.workflows.finding import Finding

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.spec.models import ClusterSpec

GOOD = Finding(id="kernel", status="ok", evidence="Linux 6.1")
BAD = Finding(id="engine", status="fail", evidence="lxd is not running", fix="sudo gpuprov host prepare")


def give(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    def examine_host(_: Reporter, *, spec: ClusterSpec) -> tuple[Finding, ...]:  # noqa: ARG001 - its signature
        return findings

    monkeypatch.setattr(doctor, "examine_host", examine_host)


def test_a_table_and_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give(monkeypatch, GOOD, BAD)
    assert main(["doctor"]) == 3
    assert capsys.readouterr().out.splitlines() == [
        "STATUS  CHECK   EVIDENCE",
        "ok      kernel  Linux 6.1",
        "fail    engine  lxd is not running",
        "",
        "what to do:",
        "engine: sudo gpuprov host prepare",
    ]


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give(monkeypatch, BAD)
    assert main(["doctor", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["findings"] == [BAD.to_json()]


@pytest.mark.parametrize("status", ["ok", "info", "warn"])
def test_what_is_only_doubtful_is_no_failure(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    give(monkeypatch, Finding(id="x", status=status, evidence="e", fix="f"))  # type: ignore[arg-type]
    assert main(["doctor", "-q"]) == 0
