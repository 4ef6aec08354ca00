from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.observe import observe
from gpuprov.machine.examine import examine_host
from gpuprov.machine.survey import EngineDoor
from tests.fakes.host import FakeHost
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from tests.conftest import Recording


def test_the_doctor_reports_an_engine_that_is_absent(recording: Recording) -> None:
    def refuse() -> Driver:
        raise HostNotReady("lxd is not running on this machine", evidence="no socket", fix="sudo gpuprov host prepare")

    door = EngineDoor(name="lxd", open=refuse, installed=lambda: True)
    here = FakeHost(folder=NOWHERE, observe=lambda mode: observe(root=NOWHERE, mode=mode), engines=(door,))
    findings = {finding.id: finding for finding in examine_host(here, recording).findings}
    assert (findings["engine"].status, findings["engine"].fix) == ("fail", "sudo gpuprov host prepare")
    assert "kernel" in findings
    assert "storage" not in findings
