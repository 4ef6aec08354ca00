"""`host mig`: refused before anything changes where somebody has the GPU, done once, and CDI knows."""

from __future__ import annotations

import io
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.core.errors import EngineError, HostNotReady, UsageError
from gpuprov.gpu.access import CDI_FILE
from gpuprov.gpu.allocate import CONTAINERS, Lease
from gpuprov.gpu.mig import HostMig
from gpuprov.gpu.mig_config import read_mig_file, wishes
from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulated_mig import STATE
from gpuprov.lifecycle.mig import apply_mig
from gpuprov.machine.survey import EngineDoor
from tests.fakes.host import FakeHost
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Recording
    from tests.fakes.world import World

SEVEN = """\
version: v1
mig-configs:
  seven:
  - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}
  two:
  - {devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}
  off:
  - {devices: all, mig-enabled: false}
  full:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 1}}
  other:
  - {devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 7}}
"""


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """Eight H100, no engine, and a file of configurations."""
    (tmp_path / "config.yaml").write_text(SEVEN)
    return FakeHost(
        folder=tmp_path,
        root=tmp_path / "root",
        observe=lambda _: observe(root=tmp_path / "root", mode="simulated", profile="h100x8"),
    )


@pytest.fixture
def typed(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def do(verb: str, *more: str) -> tuple[int, str, str]:
        capsys.readouterr()
        file = [] if verb == "export" else [str(host.folder / "config.yaml")]
        code = main(["host", "mig", verb, *file, *more], host=host)
        said = capsys.readouterr()
        return code, said.out, said.err

    return do


def test_apply_assert_export_and_a_second_run(typed: Any, host: FakeHost) -> None:
    code, out, err = typed("assert", "-c", "seven")
    assert (code, out.splitlines()[1:]) == (1, ["GPU 0: MIG off; wanted: MIG on, 7 x 1g.10gb"])
    assert "SIMULATED" in err
    assert typed("apply", "-c", "seven")[:2] == (0, "changed GPU 0 from MIG off to MIG on, 7 x 1g.10gb\n")
    assert typed("apply", "-c", "seven")[:2] == (0, "unchanged\n")
    assert typed("assert", "-c", "seven")[:2] == (0, "Selected MIG configuration currently applied\n")
    out = typed("export")[1]
    assert out.startswith("# SIMULATED\nversion: v1\n")
    (host.folder / "config.yaml").write_text(out)
    assert typed("assert")[0] == 0, "what is exported is read again"
    (host.root / STATE).unlink()  # as a reboot does
    assert typed("assert")[0] == 1
    assert typed("apply")[0] == 0
    assert typed("assert")[0] == 0


def test_documents_have_their_schemas(typed: Any) -> None:
    for verb, more in (("export", ()), ("assert", ("-c", "two")), ("apply", ("-c", "two")), ("apply", ("-c", "off"))):
        document = json.loads(typed(verb, *more, "--json")[1])
        validate(document)
        assert document.get("simulated", True)


def test_a_file_is_read_from_stdin(host: FakeHost, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    for argv in (["-f", "-"], ["-"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SEVEN.encode())))
        assert main(["host", "mig", "assert", *argv, "-c", "off"], host=host) == 0
    assert main(["host", "mig", "assert", "-c", "off"], host=host) == 2
    assert main(["host", "mig", "assert", "/not/there", "-c", "off"], host=host) == 2
    assert "fix: ls -l /not/there" in capsys.readouterr().err


@pytest.mark.parametrize(("config", "words"), [("full", "no room"), ("other", "it has 1g.10gb, 2g.20gb")])
def test_what_a_gpu_has_not_is_refused_before_anything_changes(typed: Any, config: str, words: str) -> None:
    typed("apply", "-c", "seven")
    before = typed("export")[1]
    code, _, err = typed("apply", "-c", config)
    assert code == 2
    assert words in err
    assert typed("export")[1] == before


@pytest.mark.parametrize(
    ("name", "cluster", "free"),
    [
        ("train", CONTAINERS, "docker rm -f train"),
        ("train", "lab", "gpuprov rm train"),
        ("train.run", "(jobs)", "gpuprov run rm --force train"),
        ("job-0a1b2c3d", "(jobs)", "gpuprov run rm --force job-0a1b2c3d"),
    ],
)
def test_a_lease_on_a_part_keeps_its_gpu_as_it_is(
    typed: Any, host: FakeHost, name: str, cluster: str, free: str
) -> None:
    typed("apply", "-c", "seven")
    unit = host.gpus("simulated").units[3]
    lease = Lease(node=name, gpus=(unit.uuid,), sharing="exclusive", engine="docker", cluster=cluster)
    host.containers = (lease,)
    before = typed("export")[1]
    code, _, err = typed("apply", "-c", "two")
    assert code == 3
    assert "GPU 0:3 is held" in err
    assert "exclusive, docker)" in err
    assert f"fix: free it: {free}; then sudo gpuprov host mig apply" in err
    assert typed("export")[1] == before, "nor are the GPUs that nobody holds"
    assert typed("apply", "-c", "seven")[1] == "unchanged\n"


def test_a_node_gets_a_part_and_keeps_its_gpu_cut(
    typed: Any, host: FakeHost, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    host.engines = (EngineDoor(name="lxd", open=lambda: world.driver, installed=lambda: True),)
    typed("apply", "-c", "seven")
    create = ("create-node", "web", "--role", "plain", "--gpus", "0:3", "--exclusive")
    assert main(create, host=host) == 0, capsys.readouterr().err
    held = host.gpus("simulated").units[3]
    assert world.engine.nodes["web"].labels["gpuprov.gpus"] == held.uuid
    code, _, err = typed("apply", "-c", "off")
    assert (code, "GPU 0:3 is held" in err, "gpuprov rm web" in err) == (3, True, True)
    assert main(["rm", "web"], host=host) == 0
    assert typed("apply", "-c", "off")[0] == 0


def test_an_engine_that_does_not_respond_may_hold_it(typed: Any, host: FakeHost) -> None:
    def refuse() -> Any:
        raise EngineError("lxd does not respond", evidence="no answer", fix="systemctl restart lxd")

    host.engines = (EngineDoor(name="lxd", open=refuse, installed=lambda: True),)
    code, _, err = typed("apply", "-c", "seven")
    assert (code, "lxd does not respond, and its nodes may hold GPUs" in err) == (3, True)
    assert not (host.root / STATE).exists()


def run(host: FakeHost, recording: Recording, config: str, change: Callable[[dict[str, Any]], None]) -> None:
    gpus = host.gpus("simulated")
    document: Any = gpus.document
    change(document["gpus"][0])
    entries = read_mig_file(SEVEN.encode(), name="f").mig_configs[config]
    mig = HostMig(gpus, host.root)
    apply_mig(host, "simulated", partial(wishes, entries, config=config), reporter=recording, connect=lambda *_: mig)


def test_a_process_and_a_mode_that_needs_a_reset_are_said(host: FakeHost, recording: Recording) -> None:
    with pytest.raises(HostNotReady, match="used by processes") as used:
        run(host, recording, "seven", lambda gpu: gpu.update(processes=[{"pid": 4711}]))
    assert "ps -fp 4711" in used.value.fix
    assert not (host.root / STATE).exists()
    with pytest.raises(HostNotReady, match="only after the GPU is reset") as later:
        run(host, recording, "seven", lambda gpu: gpu.update(mig_reset=True))
    assert "nvidia-smi --gpu-reset -i 0" in later.value.fix


def test_parts_that_do_not_fit_where_mig_was_off_leave_it_off(host: FakeHost, recording: Recording) -> None:
    entries = read_mig_file(SEVEN.replace("1g.10gb: 1}", "1g.20gb: 1}").encode(), name="f").mig_configs["full"]
    with pytest.raises((HostNotReady, UsageError), match="no room"):
        apply_mig(host, "simulated", partial(wishes, entries, config="full"), reporter=recording)
    assert not any(gpu.mig_enabled for gpu in host.gpus("simulated").gpus)


def test_a_gpu_without_mig_is_named(tmp_path: Path, recording: Recording) -> None:
    host = FakeHost(folder=tmp_path, observe=lambda _: observe(root=tmp_path, mode="simulated", profile="t4x2"))
    entries = read_mig_file(SEVEN.encode(), name="f").mig_configs["two"]
    with pytest.raises(HostNotReady, match="GPU 0 has no MIG"):
        apply_mig(host, "simulated", partial(wishes, entries, config="two"), reporter=recording)


def test_cdi_names_the_parts_where_a_file_of_ours_is(typed: Any, host: FakeHost) -> None:
    typed("apply", "-c", "seven")
    assert not (host.root / CDI_FILE).exists(), "nobody asked for it"
    assert main(["cdi", "--write"], host=host) == 0
    assert "wrote /etc/cdi/gpuprov.json" in typed("apply", "-c", "two")[1]
    names = [device["name"] for device in json.loads((host.root / CDI_FILE).read_text())["devices"]]
    assert names[:4] == ["0:0", "0:1", "1:0", "1:1"]
    assert sum(name.startswith("MIG-") for name in names) == 16
