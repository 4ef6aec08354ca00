from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.spec.models import ClusterSpec
from gpuprov.workflows import doctor
from gpuprov.workflows.doctor import check_host, examine_host

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver, EngineFacts, NetworkState
    from tests.conftest import Recording


class Engine:
    """As much of a driver as an examination asks."""

    def list_networks(self) -> list[NetworkState]:
        return []

    def facts(self) -> EngineFacts:
        raise HostNotReady("lxd has no storage", evidence="no pool", fix="sudo gpuprov host prepare")


def test_a_host_that_is_not_ready_is_refused_with_everything_that_is_missing(
    tmp_path: Path, recording: Recording
) -> None:
    (tmp_path / "var").mkdir()
    with pytest.raises(HostNotReady) as caught:
        check_host(cast("Driver", Engine()), ClusterSpec(), reporter=recording, root=tmp_path)
    assert "engine: lxd has no storage: no pool" in caught.value.evidence
    assert "cgroup: no cgroup file system" in caught.value.evidence
    assert "sudo gpuprov host prepare" in caught.value.fix


def test_the_doctor_reports_an_engine_that_is_absent(monkeypatch: pytest.MonkeyPatch, recording: Recording) -> None:
    def refuse(_: str) -> Driver:
        raise HostNotReady("lxd is not running on this machine", evidence="no socket", fix="sudo gpuprov host prepare")

    monkeypatch.setattr(doctor, "open_driver", refuse)
    findings = {finding.id: finding for finding in examine_host(recording)}
    assert (findings["engine"].status, findings["engine"].fix) == ("fail", "sudo gpuprov host prepare")
    assert "kernel" in findings
    assert "storage" not in findings
