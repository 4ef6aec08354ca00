from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.machine import examine as doctor
from gpuprov.shapes.base import write
from gpuprov.shapes.doctor import Doctor, HostFinding, Need

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec

GOOD = HostFinding(id="kernel", status="ok", evidence="Linux 6.1")
BAD = HostFinding(id="engine", status="fail", evidence="lxd is not running", fix="sudo gpuprov host prepare")


def give(monkeypatch: pytest.MonkeyPatch, *findings: HostFinding, needs: tuple[Need, ...] = ()) -> None:
    def examine_host(_: Host, __: Reporter, *, spec: ClusterSpec) -> Doctor:  # noqa: ARG001 - its signature
        return Doctor(host="here", findings=findings, roles=needs)

    monkeypatch.setattr(doctor, "examine_host", examine_host)


def test_a_table_and_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give(monkeypatch, GOOD, BAD)
    assert main(["doctor"]) == 3
    assert capsys.readouterr().out.splitlines() == [
        "STATUS  CHECK   EVIDENCE",
        "ok      kernel  Linux 6.1",
        "fail    engine  lxd is not running",
        "",
        "fixes:",
        "engine: sudo gpuprov host prepare",
    ]


def test_what_roles_need_stands_above_what_the_host_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = (
        Need(role="plain", part="kernel", least="5.4", has="6.1", met="yes"),
        Need(role="plain", part="engine", least="5.0", has="4.0", met="no"),
        Need(role="smoke", part="driver", least="525.60", has=None, met="SIMULATED"),
    )
    give(monkeypatch, GOOD, needs=needs)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "",
        "minimum requirements of each role; driver and compute capability only for real GPUs:",
        "ROLE       LINUX  LXD            DRIVER     COMPUTE CAPABILITY",
        "plain      5.4    5.0 (lacking)  -          -",
        "smoke      -      -              525.60     -",
        "this host  6.1    4.0            SIMULATED  -",
    ]


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give(monkeypatch, BAD)
    assert main(["doctor", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["findings"] == [write(BAD)]
    assert document["roles"] == []


@pytest.mark.parametrize("status", ["ok", "info", "warn"])
def test_what_is_only_doubtful_is_no_failure(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    give(monkeypatch, HostFinding(id="x", status=status, evidence="e", fix="f"))  # type: ignore[arg-type]
    assert main(["doctor", "-q"]) == 0
