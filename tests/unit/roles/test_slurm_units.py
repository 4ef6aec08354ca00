"""Parts of GPUs (MIG): a GRES of Slurm's each, by their profile, and the UUID that a job gets for a number."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from jinja2 import Environment
from msgspec import UNSET

from gpuprov.cluster.design import design_node
from gpuprov.cluster.files import planned_member, present_member
from gpuprov.cluster.placement import Place
from gpuprov.core.errors import UsageError
from gpuprov.gpu.allocate import Claims
from gpuprov.gpu.mig import HostMig
from gpuprov.gpu.observe import observe
from gpuprov.roles.crew import Crew
from gpuprov.roles.registry import role_of
from gpuprov.roles.slurm.checks import judge_gres, judge_job
from gpuprov.roles.slurm.facts import slurm_path
from gpuprov.roles.slurm.files import Machine, render_slurm
from gpuprov.roles.slurm.job_rows import read_gpus
from gpuprov.roles.slurm.questions import ask_slurm
from gpuprov.roles.slurm.units import unit_files
from gpuprov.shapes.cluster_spec import ClusterSpec, SlurmSpec
from gpuprov.shapes.node import CharDevice
from gpuprov.shapes.whole import LeasedUnit, Member
from gpuprov.verify.models import Expectation, Observation
from tests.fakes.engine import FakeNode

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus

SCRIPTS = Path(__file__).parents[3] / "templates/slurm"
UNITS = (
    LeasedUnit(uuid="MIG-a", type="2g.20gb", devices=("/dev/nvidia0", *(f"/dev/nvidia-caps/cap{n}" for n in (1, 2)))),
    LeasedUnit(uuid="MIG-b", type="1g.10gb", devices=("/dev/nvidia0", *(f"/dev/nvidia-caps/cap{n}" for n in (3, 4)))),
    LeasedUnit(uuid="GPU-c", type="h100", devices=("/dev/nvidia2",)),
    LeasedUnit(uuid="MIG-d", type="2g.20gb", devices=("/dev/nvidia1", *(f"/dev/nvidia-caps/cap{n}" for n in (5, 6)))),
)
NODE = Member(
    name="c000",
    address="10.0.3.2",
    private_address="",
    role="slurm",
    devices=("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"),
    gpu_types=("h100_mig", "h100_mig", "h100"),
    gpu_cores=("0-1", "2-3", "2-3"),
    gpus=tuple(unit.uuid for unit in UNITS),
    units=UNITS,
)
MACHINE = Machine(cpus=4, memory_bytes=1 << 30)


def render(member: Member = NODE, spec: ClusterSpec | None = None) -> tuple[str, str]:
    slurm, gres, _ = render_slurm(spec or ClusterSpec(), [member], MACHINE, accounting=True)
    return slurm.content.decode(), gres.content.decode()


def test_each_part_is_a_gres_of_its_profile_and_those_of_a_type_are_together() -> None:
    slurm, gres = render()
    lines = (
        ("2g.20gb", "MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/cap1,/dev/nvidia-caps/cap2", "0-1"),
        ("2g.20gb", "MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/cap5,/dev/nvidia-caps/cap6", "2-3"),
        ("1g.10gb", "MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/cap3,/dev/nvidia-caps/cap4", "0-1"),
        ("h100", "File=/dev/nvidia2", "2-3"),
    )
    assert gres.splitlines()[2:] == [
        f"NodeName=c000 Name=gpu Type={type_} {files} Cores={cores}" for type_, files, cores in lines
    ]
    assert " Feature=h100_mig,h100,2g.20gb,1g.10gb Gres=gpu:2g.20gb:2,gpu:1g.10gb:1,gpu:h100:1 " in slurm
    assert "AccountingStorageTRES=gres/gpu,gres/gpu:1g.10gb,gres/gpu:2g.20gb,gres/gpu:h100\n" in slurm


def test_the_numbers_of_slurm_have_their_uuids_in_the_node() -> None:
    (file,) = unit_files(NODE)
    assert (file.path, file.mode) == (slurm_path("gpu_units"), 0o644)
    assert file.content.decode().splitlines() == ["0 MIG-a", "1 MIG-d", "2 MIG-b", "3 GPU-c"]
    assert unit_files(Member(name="c001", address="", private_address="", role="slurm")) == ()
    for script in ("task-prolog.sh", "prolog.sh"):
        assert slurm_path("gpu_units") in (SCRIPTS / script).read_text()


@pytest.mark.parametrize("types", [("a100", "h100", "a100", "t4"), ("h100", "h100"), ("h100",), ()])
def test_a_host_of_a_lab_has_the_numbers_that_a_node_has(types: tuple[str, ...]) -> None:
    """Ansible has trim_blocks, a final line break, and zip."""
    roles = SCRIPTS.parents[1] / "roles"
    text = yaml.safe_load((roles / "slurm/vars/main.yml").read_text())["slurm_gpu_numbers"]
    environment = Environment(trim_blocks=True, keep_trailing_newline=True, autoescape=False)
    environment.filters["zip"] = zip
    devices = [f"/dev/nvidia{number}" for number in range(len(types))]
    units = [
        LeasedUnit(type=type_, uuid=f"GPU-{number}", devices=(devices[number],)) for number, type_ in enumerate(types)
    ]
    several = len(set(types)) > 1
    member = Member(
        name="c000",
        address="",
        private_address="",
        role="slurm",
        devices=tuple(devices),
        units=tuple(units) if several else UNSET,
    )
    given = {"slurm_gpu_types": list(types), "slurm_gpu_uuids": [unit.uuid for unit in units]}
    said = environment.from_string(text).render(given)
    assert said.encode() == b"".join(file.content for file in unit_files(member))
    assert bool(said) == several


@pytest.mark.parametrize(
    ("visible", "said"),
    [
        ("1", "export CUDA_VISIBLE_DEVICES=MIG-d"),
        ("0,2", "export CUDA_VISIBLE_DEVICES=MIG-a,MIG-b"),
        ("MIG-a", ""),
        ("7", "export CUDA_VISIBLE_DEVICES="),
    ],
)
def test_a_task_is_told_its_parts_by_their_uuids(tmp_path: Path, visible: str, said: str) -> None:
    (tmp_path / "units").write_bytes(unit_files(NODE)[0].content)
    script = (SCRIPTS / "task-prolog.sh").read_text()
    (tmp_path / "empty").touch()
    told = [said] * bool(said)
    for file, lines in ((tmp_path / "units", told), (tmp_path / "none", []), (tmp_path / "empty", [])):
        text = script.replace(slurm_path("gpu_units"), str(file)).replace("/etc/gpuprov/environment", "/none")
        environment = {"CUDA_VISIBLE_DEVICES": visible}
        done = subprocess.run(["/bin/sh", "-c", text], env=environment, capture_output=True, check=True, text=True)
        assert (done.stdout.splitlines(), done.stderr) == (lines, "")


@pytest.fixture
def host(tmp_path: Path) -> HostGpus:
    """An H100 that is cut into a 2g.20gb and two 1g.10gb, and seven that are not."""

    def look() -> HostGpus:
        return observe(root=tmp_path, mode="simulated", profile="h100x8")

    mig = HostMig(look(), tmp_path)
    mig.set_mode(0, enabled=True)
    mig.create(0, [(14, 0, 2), (19, 2, 1), (19, 3, 1)])
    return look()


def test_a_node_is_recorded_as_it_was_planned(host: HostGpus) -> None:
    place = Place(host="h", gpus=host, leases=(), claims=Claims())
    chosen = (host.units[1], host.units[0], host.units[5])
    design = design_node(ClusterSpec(), "c000", attachments=(), gpus=chosen, sharing="exclusive", place=place)
    labels = design.labels()
    assert labels["gpuprov.gpu-units"] == "1g.10gb:0:21:22,2g.20gb:0:12:13,h100:3"
    node = FakeNode(name="c000", labels=labels, devices=design.devices)
    planned, present = planned_member(design), present_member(node.state())
    assert present.units == planned.units
    assert [unit.is_part for unit in present.units or ()] == [True, True, False]
    assert (present.gpu_count, len(present.devices)) == (3, 2)
    made = {device.path for device in design.devices}
    assert {path for unit in present.units or () for path in unit.devices} < made, "what gres.conf names is there"
    lines = design.request().files[-1].content.decode().splitlines()
    assert lines == [f"/dev/nvidia{unit.minor} {unit.uuid}" for unit in chosen]
    for damaged in ("", "x", "1g.10gb:0:21:22,h100:3", "1g.10gb:0:21:22,2g.20gb:0:12:13,h100:$(x)"):
        node.labels = {**labels, "gpuprov.gpu-units": damaged}
        assert not present_member(node.state()).units


def test_a_node_without_parts_has_no_such_record(host: HostGpus) -> None:
    place = Place(host="h", gpus=host, leases=(), claims=Claims())
    whole = design_node(ClusterSpec(), "c000", attachments=(), gpus=host.units[3:5], sharing="shared", place=place)
    assert whole.labels()["gpuprov.gpu-units"] == ""
    assert not planned_member(whole).units
    assert planned_member(whole).gpu_count == 2


def test_gpus_of_several_models_are_numbered_type_by_type(tmp_path: Path) -> None:
    """As Slurm does, whatever the order in gres.conf: the fifth of six is the A100, which has minor 2."""
    host = observe(root=tmp_path, mode="simulated", profile="mixed", simulated_count=6)
    place = Place(host="h", gpus=host, leases=(), claims=Claims())
    design = design_node(ClusterSpec(), "c000", attachments=(), gpus=host.units, sharing="shared", place=place)
    node = FakeNode(name="c000", labels=design.labels(), devices=design.devices)
    for member in (planned_member(design), present_member(node.state())):
        lines = unit_files(member)[0].content.decode().splitlines()
        order = (0, 1, 4, 5, 2, 3)
        assert lines == [f"{number} {host.units[minor].uuid}" for number, minor in enumerate(order)]
        slurm, gres = render(member, ClusterSpec(slurm=SlurmSpec(shards_per_gpu=2)))
        assert "Gres=gpu:h100:4,gpu:a100:1,gpu:t4:1,shard:12 " in slurm
        assert gres.splitlines()[6:8] == [
            "NodeName=c000 Name=gpu Type=a100 File=/dev/nvidia2",
            "NodeName=c000 Name=shard Count=2 File=/dev/nvidia2",
        ]


def test_shards_of_parts_are_refused() -> None:
    spec = ClusterSpec(slurm=SlurmSpec(shards_per_gpu=4))
    with pytest.raises(UsageError, match=r"c000 holds parts of GPUs \(MIG\), which have no shards") as caught:
        role_of("slurm").refuse_crew(Crew(spec=spec, members=(NODE,)))
    assert "2g.20gb MIG-a" in caught.value.evidence
    assert "GPU-c" not in caught.value.evidence
    role_of("slurm").refuse_crew(Crew(spec=ClusterSpec(), members=(NODE,)))


@pytest.mark.parametrize(
    ("gres", "status"), [("gpu:1g.10gb:2,gpu:2g.20gb+me:1(S:0)", "pass"), ("gpu:h100_mig:1", "fail")]
)
def test_verify_counts_parts(gres: str, status: str) -> None:
    devices = (CharDevice(path="/dev/nvidia0", major=195, minor=0),)
    gpus = ("MIG-1", "MIG-2", "MIG-3")
    expected = Expectation(node="c000", status="running", role="slurm", devices=devices, gpus=gpus)
    show = {"stdout": f"NodeName=c000 Gres={gres} State=IDLE", "stderr": "", "exit_code": 0, "timed_out": False}
    finding = judge_gres(expected, Observation(facts={"slurm": {"show": show}}))
    assert finding.status == status
    assert "--gres=gpu:3" in str(ask_slurm(expected, timeout_s=1)["job"]["argv"])


@pytest.mark.parametrize(
    ("visible", "uuids", "status"),
    [
        ("GPU-2,GPU-1", ["GPU-2", "GPU-1"], "pass"),
        ("0,1", ["GPU-1", "GPU-2"], "pass"),
        ("GPU-2", ["GPU-2"], "fail"),
        ("0,1", ["GPU-1", "GPU-3"], "fail"),
    ],
)
def test_verify_takes_the_gpus_of_a_job_by_their_uuids(visible: str, uuids: list[str], status: str) -> None:
    devices = tuple(CharDevice(path=f"/dev/nvidia{minor}", major=195, minor=minor) for minor in range(2))
    gpus = ("GPU-1", "GPU-2")
    expected = Expectation(node="c000", status="running", role="slurm", devices=devices, gpus=gpus)
    said = json.dumps({"node": "c000", "visible": visible, "uuids": uuids, "problem": ""})
    job = {"stdout": said, "stderr": "", "exit_code": 0, "timed_out": False}
    assert judge_job(expected, Observation(facts={"slurm": {"job": job}})).status == status


def test_usage_reads_types_of_parts() -> None:
    assert read_gpus("cpu=1,gres/gpu:1g.10gb+me=1,gres/gpu:2g.20gb=2,gres/gpu=3") == {"1g.10gb+me": 1, "2g.20gb": 2}
