from __future__ import annotations

import base64
import io
import json
import os
import shlex
import tarfile
from dataclasses import replace
from errno import EACCES
from threading import Barrier, Event
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.bundle_parts import MOST_BYTES
from gpuprov.core.errors import EngineError, HostNotReady, UsageError
from gpuprov.core.report_file import ReportFile
from gpuprov.drivers.base import ExecResult
from gpuprov.drivers.registry import REGISTRY
from gpuprov.machine import survey
from gpuprov.machine.bundle import host_parts, pick_kernel_lines
from gpuprov.machine.survey import EngineDoor
from gpuprov.roles.worker.page import PAGE_FILE
from gpuprov.roles.worker.password import BROKER_FILE
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import NodesSpec
from gpuprov.shapes.node import Attachment, Mount
from gpuprov.stories import bundle
from gpuprov.stories.bundle import FOLDER, PART_S, Collected, Sources, make_bundle, pack_bundle
from tests.fakes.doors import AnswersOfTheRest, HungEngine, door_of
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine, FakeNode

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from tests.fakes.engine import Command
    from tests.fakes.world import World

pytestmark = pytest.mark.slow

TOKEN = "tok-1234567890"


@pytest.fixture
def sources(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    monkeypatch.setenv("LXD_DIR", str(tmp_path / "no-lxd"))  # doctor asks the engines of this machine
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-docker.socket")
    for folder in ("dev", "etc"):
        (tmp_path / folder).mkdir()
    (tmp_path / "dev/kmsg").write_text("4,1,5000000,-;NVRM: loading NVIDIA UNIX Kernel Module\n6,2,6000000,-;usb 1-1\n")
    (tmp_path / "etc/os-release").write_text('PRETTY_NAME="Debian 12"\n')
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "one.log").write_text(f"gpuprov: exec c000 -- curl -H {TOKEN}\n")
    world.host.engines = (EngineDoor(name="lxd", open=lambda: world.driver, installed=lambda: True),)
    return Sources(
        engines=("lxd",),
        host=world.host,
        root=tmp_path,
        run_logs=logs,
        environment={"CI_TOKEN": TOKEN, "PATH": "/bin"},
    )


def new_file(folder: Path, name: str = "b.tar.gz") -> ReportFile:
    return ReportFile(str(folder / name), option="FILE", kind="bundle", new=True)


def unpack(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        files = {member.name.removeprefix(f"{FOLDER}/"): archive.extractfile(member) for member in archive}
        return {name: file.read().decode() for name, file in files.items() if file}


def test_everything_of_a_cluster_is_in_it(world: World, sources: Sources, tmp_path: Path) -> None:
    world.begin_with(2)
    collected = make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    parts = unpack(tmp_path / "b.tar.gz")
    assert parts.pop("README.txt")
    assert parts == collected.parts
    expected = {"versions.json", "record.json", "doctor-lxd.json", "fake/facts.json", "fake/nodes.json", "runs/one.log"}
    expected |= {
        "fake/clusters/lab/spec.json",
        "fake/clusters/lab/plan.txt",
        "fake/clusters/lab/status.json",
        "fake/clusters/lab/slurm.txt",
    }
    expected |= {f"fake/nodes/{name}/{part}" for name in ("c000", "c001") for part in ("journal.txt", "slurm-logs.txt")}
    assert expected <= set(parts)
    assert parts["fake/clusters/lab/plan.txt"].startswith("nothing to do")
    assert json.loads(parts["fake/clusters/lab/spec.json"])["spec"]["nodes"]["count"] == 2
    assert json.loads(parts["versions.json"])["system"] == "Debian 12"
    assert parts["host/kernel.txt"] == "[    5.000000] NVRM: loading NVIDIA UNIX Kernel Module\n"


def test_no_secret_is_in_it_whatever_the_nodes_say(world: World, sources: Sources, tmp_path: Path) -> None:
    world.begin_with(1)
    key = world.engine.nodes["c000"].files["/etc/munge/munge.key"].content
    answer = world.engine.answer

    def leak(command: Command) -> ExecResult:
        if "journalctl" in command.argv[-1]:
            text = f"{key.hex()} {base64.b64encode(key).decode()} {TOKEN} password=hunter2hunter2 private"
            return ExecResult(exit_code=0, stdout=text, stderr="")
        return answer(command)

    world.engine.answer = leak
    make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    parts = unpack(tmp_path / "b.tar.gz")
    assert "password=(hidden)" in parts["fake/nodes/c000/journal.txt"]
    whole = "".join(parts.values())
    for secret in (key.hex(), base64.b64encode(key).decode(), TOKEN, "hunter2"):
        assert secret not in whole


def test_no_password_of_a_broker_or_of_its_page_is_in_it(world: World, sources: Sources, tmp_path: Path) -> None:
    world.up(spec=world.spec(nodes=NodesSpec(count=2, role="worker"), share=True))
    broker = BROKER_FILE.key_in(world.engine.nodes["c001"].files[BROKER_FILE.path].content)
    page = PAGE_FILE.key_in(world.engine.nodes["c000"].files[PAGE_FILE.path].content)
    assert broker
    assert page
    answer = world.engine.answer

    def leak(command: Command) -> ExecResult:
        if "journalctl" in command.argv[-1]:
            text = f"{command.node.name} said {broker.decode()} and {page.decode()} in {page.hex()}"
            return ExecResult(exit_code=0, stdout=text, stderr="")
        return answer(command)

    world.engine.answer = leak
    make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    parts = unpack(tmp_path / "b.tar.gz")
    for name in ("c000", "c001"):
        assert f"{name} said (hidden) and (hidden) in (hidden)" in parts[f"fake/nodes/{name}/journal.txt"]
    whole = "".join(parts.values())
    assert broker.decode() not in whole
    assert page.decode() not in whole


@pytest.mark.parametrize("planted", [b"10.0.3.2\n" * 500_000, b"10.0.3.2\n" * 100, b"10.0.3.2"])
def test_a_node_cannot_have_words_of_others_hidden_by_its_key(
    world: World, sources: Sources, tmp_path: Path, planted: bytes
) -> None:
    world.begin_with(2)
    (sources.run_logs / "two.log").write_text("c000 has 10.0.3.2 here\n")
    files = world.engine.nodes["c001"].files
    files["/etc/munge/munge.key"] = replace(files["/etc/munge/munge.key"], content=planted)
    make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    assert unpack(tmp_path / "b.tar.gz")["runs/two.log"] == "c000 has 10.0.3.2 here\n"


def test_no_variable_of_a_node_or_spec_is_in_it(world: World, sources: Sources, tmp_path: Path) -> None:
    """Values of every form, in each place where they stand: the engine's view, labels, specs, plans and logs."""
    base = world.spec(1)
    clustered = ("DB_PASSWORD=two cluster words", "PGPASS=zp1,zq1;zr1")
    world.up(spec=changed(base, nodes=changed(base.nodes, environment=clustered)))
    given = {"DB_PASSWORD": "it's two node words", "API_TOKEN": "zp2,zq2;zr2", "MYSQL_PWD": 'zab"c\\zy"e', "A": "kept"}
    variables = tuple(f"{key}={value}" for key, value in given.items())
    world.create("c001", environment=variables)
    node = world.engine.nodes["c001"]
    node.environment["SMTP_PASS"] = "changed by hand"  # a plan tells what it was
    words = ["gpuprov 1: create-node c009", *(f"-e {shlex.quote(text)}" for text in variables)]
    (sources.run_logs / "two.log").write_text(" ".join(words))
    answer = world.engine.answer

    def leak(command: Command) -> ExecResult:
        if "journalctl" in command.argv[-1]:
            return ExecResult(exit_code=0, stdout=f"said {given['DB_PASSWORD']!r} {given['MYSQL_PWD']}", stderr="")
        return answer(command)

    world.engine.answer = leak
    make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    parts = unpack(tmp_path / "b.tar.gz")
    shown = {node["name"]: node for node in json.loads(parts["fake/nodes.json"])["nodes"]}
    assert shown["c001"]["environment"]["A"] == "kept"
    assert shown["c001"]["environment"]["DB_PASSWORD"] == "(hidden)"
    order = json.loads(shown["c001"]["labels"]["gpuprov.order"])
    assert set(order["environment"]) == {"DB_PASSWORD=(hidden)", "API_TOKEN=(hidden)", "MYSQL_PWD=(hidden)", "A=kept"}
    spec = json.loads(parts["fake/clusters/lab/spec.json"])["spec"]
    assert spec["nodes"]["environment"] == ["DB_PASSWORD=(hidden)", "PGPASS=(hidden)"]
    assert "create-node c009" in parts["runs/two.log"]
    for secret in ("it's", "two ", "cluster words", "node words", "zp", "zq", "zr", "zab", "zy", "by hand"):
        assert [part for part, text in parts.items() if secret in text] == [], secret


def test_of_foreign_nodes_only_where_they_are_is_in_it(world: World, sources: Sources, tmp_path: Path) -> None:
    address = Attachment(network="br", interface="eth0", kind="veth", address="10.0.9.9/24", mac="00:16:3e:00:00:09")
    world.engine.nodes["theirs"] = FakeNode(
        name="theirs",
        status="running",
        attachments=(address,),
        environment={"DATABASE": "their business", "DB_PASSWORD": "their own secret"},
        mounts=(Mount(source="/home/them", target="/data"),),
    )
    (sources.run_logs / "two.log").write_text("evidence: their own secret\n")
    make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    parts = unpack(tmp_path / "b.tar.gz")
    (foreign,) = json.loads(parts["fake/nodes.json"])["nodes"]
    assert foreign == {"name": "theirs", "status": "running", "addresses": {"eth0": "10.0.9.9/24"}}
    whole = "".join(parts.values())
    for text in ("their business", "their own secret", "/home/them"):
        assert text not in whole


def test_an_engine_that_is_dead_is_named_in_it(world: World, sources: Sources, tmp_path: Path) -> None:
    def dead() -> Driver:
        raise HostNotReady("the lxd daemon does not respond", evidence="refused", fix="gpuprov host prepare")

    world.host.engines = (EngineDoor(name="lxd", open=dead, installed=lambda: True),)
    collected = make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    assert "lxd" in collected.missing
    parts = unpack(tmp_path / "b.tar.gz")
    assert "lxd: the lxd daemon does not respond: refused (fix: gpuprov host prepare)" in parts["README.txt"]
    assert "versions.json" in parts


def test_every_engine_is_in_it_and_a_dead_one_hides_no_other(world: World, sources: Sources, tmp_path: Path) -> None:
    world.begin_with(1)

    def dead() -> Driver:
        raise HostNotReady("docker is not running", evidence="no socket", fix="gpuprov host prepare")

    world.host.engines += (EngineDoor(name="docker", open=dead, installed=lambda: True),)
    asked = replace(sources, engines=("docker", "lxd"))
    collected = make_bundle(new_file(tmp_path), asked, reporter=world.reporter)
    assert collected.missing == {"docker": "docker is not running: no socket (fix: gpuprov host prepare)"}
    assert {"doctor-docker.json", "doctor-lxd.json", "fake/nodes/c000/journal.txt"} <= set(collected.parts)


def test_the_host_and_all_engines_are_collected_at_once(
    world: World, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that hang cost their limit once, and not once for each engine."""
    meeting = Barrier(3, timeout=PART_S / 2)

    def meet() -> str:
        return str(meeting.wait())

    doors = []
    for name in ("lxd", "docker"):
        driver = FakeDriver(FakeEngine())
        driver.name = name
        monkeypatch.setattr(driver, "list_images", lambda: [meet()][:0])
        doors.append(door_of(driver))
    world.host.engines = tuple(doors)
    monkeypatch.setattr(bundle, "host_parts", lambda *_args, **_where: {"host/met.txt": meet})
    asked = replace(sources, engines=("lxd", "docker"))
    collected = make_bundle(new_file(tmp_path), asked, reporter=world.reporter)
    assert {"host/met.txt", "lxd/images.json", "docker/images.json"} <= set(collected.parts)


def test_an_engine_that_hangs_is_named_and_holds_up_nothing(
    world: World, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.up(1)
    hung = HungEngine("docker")
    world.host.engines += (hung.door,)
    monkeypatch.setattr(survey, "SimpleQueue", AnswersOfTheRest)
    collected = make_bundle(new_file(tmp_path), replace(sources, engines=("docker", "lxd")), reporter=world.reporter)
    assert hung.hangs  # nobody has waited for it
    hung.release()
    assert collected.missing["docker"].startswith("docker does not respond: no response within 10 s")
    findings = json.loads(collected.parts["doctor-docker.json"])
    assert "docker does not respond" in json.dumps(findings)
    assert "fake/nodes/c000/journal.txt" in collected.parts


def test_one_that_hangs_in_the_midst_costs_a_part(
    world: World, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.up(1)
    over = Event()
    monkeypatch.setattr(bundle, "PART_S", 0.5)
    monkeypatch.setattr(FakeDriver, "list_images", lambda _driver: over.wait(60.0))
    collected = make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    assert not over.is_set()
    over.set()
    assert collected.missing["fake/images.json"] == "it hangs: there was no result within 0.5 s (fix: gpuprov doctor)"
    assert "fake/nodes.json" in collected.parts


def test_a_cluster_that_cannot_be_read_costs_its_parts_alone(
    world: World, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.up(1)

    def refuse(*_given: object, **_named: object) -> dict[str, object]:
        raise EngineError("its labels are damaged", evidence="e", fix="f")

    monkeypatch.setattr(bundle, "cluster_parts", refuse)
    collected = make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    assert "its labels are damaged" in collected.missing["fake/clusters/lab"]
    assert "fake/nodes/c000/journal.txt" in collected.parts


def test_the_logs_and_units_of_all_engines_are_those_of_the_registry(sources: Sources, tmp_path: Path) -> None:
    for entry in REGISTRY.values():
        for log in entry.logs:
            (tmp_path / log).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / log).write_text(f"said by {log}")
    parts = host_parts(sources.host, (), root=tmp_path, run_logs=tmp_path)
    names = {f"host/{log.rpartition('/')[2]}" for entry in REGISTRY.values() for log in entry.logs}
    assert names <= set(parts)
    assert all(entry.units for entry in REGISTRY.values())


def test_no_cluster_is_named_too(world: World, sources: Sources, tmp_path: Path) -> None:
    collected = make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    assert "no gpuprov cluster" in collected.missing["fake/clusters"]
    assert "fake/nodes.json" in collected.parts


def test_a_part_that_fails_stops_no_other(world: World, sources: Sources, tmp_path: Path) -> None:
    world.begin_with(2)
    world.engine.nodes["c001"].status = "stopped"
    broken = EngineError("no log", evidence="gone", fix="x")
    world.engine.faults.raise_at(broken, "logs", subject="c000")
    collected = make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    assert "no log" in collected.missing["fake/nodes/c000/console.txt"]
    assert "gpuprov start c001" in collected.missing["fake/nodes/c001/journal.txt"]
    assert "fake/nodes/c001/console.txt" in collected.parts


def test_a_fault_of_ours_is_named_and_stops_nothing() -> None:
    collected = Collected()
    collected.take({"bad": lambda: str(1 // 0), "good": lambda: "text"})
    assert collected.parts == {"good": "text"}
    assert collected.missing == {"bad": "unexpected ZeroDivisionError: integer division or modulo by zero"}


def test_a_long_log_is_cut_and_a_long_document_is_whole() -> None:
    collected = Collected()
    collected.take({"log.txt": lambda: "x" * (MOST_BYTES + 9), "nodes.json": lambda: json.dumps(["x"] * MOST_BYTES)})
    assert len(collected.parts["log.txt"]) == MOST_BYTES
    assert len(json.loads(collected.parts["nodes.json"])) == MOST_BYTES


def test_it_is_for_its_owner_only_and_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    file = new_file(tmp_path)
    path.write_text("somebody was faster")
    with pytest.raises(HostNotReady, match="the bundle could not be written"):
        file.write(b"x")
    assert path.read_text() == "somebody was faster"
    with pytest.raises(UsageError, match="never overwritten") as caught:
        new_file(tmp_path)
    assert caught.value.fix.endswith("gpuprov bundle ./another-b.tar.gz")
    new_file(tmp_path, "c").write(b"y")
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["b.tar.gz", "c"]


def test_members_have_no_owner_and_stay_below_one_folder() -> None:
    packed = pack_bundle(Collected(parts={"a/b": "c"}), now_s=1e9)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == [f"{FOLDER}/README.txt", f"{FOLDER}/a/b"]
        assert {(member.uid, member.mode, member.isfile()) for member in archive.getmembers()} == {(0, 0o600, True)}


def test_the_kernels_log_is_only_what_concerns_nodes() -> None:
    text = "[1] NVRM: Xid (PCI:0000:01:00): 79\n[2] usb 1-1: new device of somebody\n[3] neighbour: table overflow!\n"
    assert pick_kernel_lines(text).splitlines() == [text.splitlines()[0], text.splitlines()[2]]


def test_what_this_user_may_not_read_is_named(
    world: World, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / REGISTRY["incus"].logs[0]
    usual, opens = type(log).stat, type(log).open

    def refuse_below(path: Path) -> None:
        if path.is_relative_to(log.parent) and path != log.parent:
            raise PermissionError(EACCES, "Permission denied", str(path))

    def stat(path: Path, **how: Any) -> Any:
        refuse_below(path)
        return usual(path, **how)

    def open_(path: Path, *how: Any, **more: Any) -> Any:
        refuse_below(path)
        return opens(path, *how, **more)

    monkeypatch.setattr(type(log), "stat", stat)
    monkeypatch.setattr(type(log), "open", open_)
    collected = make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    assert collected.missing[f"host/{log.name}"] == f"this user may not read it: {log} (fix: sudo gpuprov bundle)"
    assert f"host/{log.name}: this user may not read it" in unpack(tmp_path / "b.tar.gz")["README.txt"]


def test_without_a_home_folder_there_is_a_bundle(
    world: World, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert make_bundle(new_file(tmp_path), sources, reporter=world.reporter).parts["versions.json"]
