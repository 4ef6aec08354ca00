from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.host import examine as doctor
from gpuprov.host.examine import examine_host

if TYPE_CHECKING:
    import pytest

    from gpuprov.drivers.base import Driver
    from tests.conftest import Recording


def test_the_doctor_reports_an_engine_that_is_absent(monkeypatch: pytest.MonkeyPatch, recording: Recording) -> None:
    def refuse(_: str) -> Driver:
        raise HostNotReady("lxd is not running on this machine", evidence="no socket", fix="sudo gpuprov host prepare")

    monkeypatch.setattr(doctor, "open_driver", refuse)
    findings = {finding.id: finding for finding in examine_host(recording).findings}
    assert (findings["engine"].status, findings["engine"].fix) == ("fail", "sudo gpuprov host prepare")
    assert "kernel" in findings
    assert "storage" not in findings
