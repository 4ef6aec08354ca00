"""The file in /etc/cdi: made whole, never beside another of its kind, and written anew when GPUs have changed."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.cdi_spec import make_cdi_spec
from gpuprov.gpu.observe import observe
from gpuprov.machine.cdi_file import is_outdated, renew_cdi_file, write_cdi_file
from tests.fakes.host import FakeHost
from tests.unit.gpu.conftest import RecordedHost

if TYPE_CHECKING:
    from tests.conftest import Recording

FILE = "etc/cdi/gpuprov.json"
REAL = RecordedHost("eight-gpu").observe()
SIMULATED = observe(root=Path("/nonexistent"), mode="simulated")


def upgraded() -> Any:
    """The same host after an upgrade of its driver."""
    assert REAL.driver is not None
    new = tuple(path.replace(REAL.driver.version, "590.10") for path in REAL.driver.libraries)
    return replace(REAL, driver=replace(REAL.driver, version="590.10", libraries=new))


def test_it_is_written_once_and_readable_by_everybody(tmp_path: Path) -> None:
    assert write_cdi_file(tmp_path, make_cdi_spec(REAL)) == (f"wrote /{FILE} with 17 names of nvidia.com/gpu",)
    before = (tmp_path / FILE).stat()
    assert write_cdi_file(tmp_path, make_cdi_spec(REAL)) == ()
    assert (tmp_path / FILE).stat().st_ino == before.st_ino
    assert stat.S_IMODE(before.st_mode) == 0o644
    assert [path.name for path in (tmp_path / "etc/cdi").iterdir()] == ["gpuprov.json"]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "etc/cdi").mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("{}")
    for name in ("gpuprov.json", "gpuprov.part"):
        (tmp_path / "etc/cdi" / name).symlink_to(victim)
    write_cdi_file(tmp_path, make_cdi_spec(SIMULATED))
    assert victim.read_text() == "{}"
    assert not (tmp_path / FILE).is_symlink()


@pytest.mark.parametrize("place", ["etc/cdi/nvidia.yaml", "var/run/cdi/nvidia.yaml", "etc/cdi/other.json"])
def test_a_file_of_the_same_kind_is_not_shadowed(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    with pytest.raises(HostNotReady, match="another CDI file") as caught:
        write_cdi_file(tmp_path, make_cdi_spec(REAL))
    assert caught.value.evidence == f"/{place}"
    assert f"sudo rm /{place}; sudo gpuprov cdi --write" in caught.value.fix
    assert not (tmp_path / FILE).exists()
    assert write_cdi_file(tmp_path, make_cdi_spec(SIMULATED)), "of another kind"


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("")
    with pytest.raises(HostNotReady, match=f"/{FILE} cannot be written"):
        write_cdi_file(tmp_path, make_cdi_spec(SIMULATED))


def test_it_is_renewed_after_an_upgrade_where_it_is_there(tmp_path: Path, recording: Recording) -> None:
    there = REAL
    host = FakeHost(folder=tmp_path, observe=lambda _mode: there, root=tmp_path)
    assert renew_cdi_file(host, reporter=recording) == (), "nobody asked for it"
    write_cdi_file(tmp_path, make_cdi_spec(REAL))
    assert renew_cdi_file(host, reporter=recording) == ()
    assert not is_outdated(tmp_path, there)
    there = upgraded()
    assert is_outdated(tmp_path, there)
    assert renew_cdi_file(host, reporter=recording) == (f"wrote /{FILE} with 17 names of nvidia.com/gpu",)
    mounts = json.loads((tmp_path / FILE).read_text())["containerEdits"]["mounts"]
    assert any(mount["hostPath"].endswith("libcuda.so.590.10") for mount in mounts)
    assert not is_outdated(tmp_path, there)


def test_a_driver_that_is_not_ready_is_a_warning_and_the_file_stays(tmp_path: Path, recording: Recording) -> None:
    write_cdi_file(tmp_path, make_cdi_spec(REAL))
    before = (tmp_path / FILE).read_text()
    missing = RecordedHost("uvm-missing").observe()
    host = FakeHost(folder=tmp_path, observe=lambda _mode: missing, root=tmp_path)
    assert renew_cdi_file(host, reporter=recording) == ()
    assert (tmp_path / FILE).read_text() == before
    assert any("nvidia-uvm is not loaded" in line for line in recording.lines)
    assert not is_outdated(tmp_path, missing)


def test_one_for_simulated_gpus_is_left_alone(tmp_path: Path, recording: Recording) -> None:
    write_cdi_file(tmp_path, make_cdi_spec(SIMULATED))
    host = FakeHost(folder=tmp_path, observe=lambda _mode: REAL, root=tmp_path)
    assert renew_cdi_file(host, reporter=recording) == ()
    assert not is_outdated(tmp_path, SIMULATED)
