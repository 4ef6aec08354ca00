"""`cluster save` and `cluster restore`: the archive, and what is refused before anything is made."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.cluster.secrets import key_folder
from gpuprov.core.execution import CommandFailed
from gpuprov.machine.packed_folder import pack_folder, unpack_folder
from tests.schemas import validate

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed

UP = ("cluster", "up", "-n", "2", "--gpu-mode", "simulated", "--no-verify")


@pytest.fixture
def archive(typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """That of a cluster of two nodes, which is there no more."""
    typed(UP, capsys)
    path = tmp_path / "lab.tar"
    said = typed(("cluster", "save", str(path)), capsys)
    assert said == f"saved cluster lab to {path}: its spec, ssh keys\n"
    return path


def refused(typed: Typed, capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv, host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert all(part in said for part in ("error: ", "fix: ")), said
    return said


def test_a_cluster_comes_back_with_its_nodes_and_keys(
    typed: Typed, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (key_folder("lab") / "id_ed25519").read_text()
    assert archive.stat().st_mode & 0o777 == 0o600
    typed(("cluster", "down", "--yes"), capsys)
    assert not key_folder("lab").exists()
    restored = typed(("--json", "cluster", "restore", str(archive)), capsys, codes=(0, 1))  # nobody proves such nodes
    assert validate(json.loads(restored)) == "gpuprov.cluster-up/v1"
    assert typed.world.names == ["c000", "c001"]
    assert (key_folder("lab") / "id_ed25519").read_text() == before
    assert [path.name for path in key_folder("lab").iterdir() if path.suffix == ".yaml"] == []


def test_the_spec_in_it_is_one_for_cluster_up(
    typed: Typed, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(archive) as found:
        found.extract("spec.yaml", tmp_path)
    planned = typed(("cluster", "plan", "-f", str(tmp_path / "spec.yaml")), capsys)
    assert planned == "nothing to do: the cluster matches its spec\n"


def test_the_spec_of_a_cluster_is_printed_as_a_file_for_cluster_up(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed((*UP, "--name", "fe1"), capsys)
    (tmp_path / "spec.yaml").write_text(typed(("cluster", "spec", "fe1"), capsys))
    planned = typed(("cluster", "plan", "-f", str(tmp_path / "spec.yaml")), capsys)
    assert planned == "nothing to do: the cluster matches its spec\n"
    document = typed(("--json", "cluster", "spec", "fe1"), capsys)
    assert validate(json.loads(document)) == "gpuprov.spec/v1"
    assert json.loads(document)["spec"]["nodes"]["count"] == 2
    assert "there is no cluster fe2" in refused(typed, capsys, "cluster", "spec", "fe2")


def test_nodes_of_create_node_alone_have_no_spec(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed(("create-node", "c000", "--role", "plain", "--gpu-mode", "simulated"), capsys)
    assert "its nodes are from create-node" in refused(typed, capsys, "cluster", "spec")


def test_a_broker_s_password_is_not_printed_and_what_stands_for_it_is_refused(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("version: gpuprov/v1\nworker: {broker: 'amqp://ann:no-one-else@hoff'}\n")
    typed(("cluster", "up", "-f", str(path), "--gpu-mode", "simulated", "--no-verify"), capsys)
    printed = typed(("cluster", "spec"), capsys)
    assert "broker: amqp://(hidden)@hoff" in printed
    assert "no-one-else" not in typed(("--json", "cluster", "spec"), capsys)
    path.write_text(printed)
    said = refused(typed, capsys, "cluster", "up", "-f", str(path))
    assert "worker.broker" in said
    assert "has (hidden) in place of its account and password" in said


def test_whoever_types_a_cluster_in_place_of_the_file_is_told(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    typed((*UP, "--name", "fe1"), capsys)
    said = refused(typed, capsys, "cluster", "save", "fe1")
    assert "there is no cluster lab" in said
    assert "fix: gpuprov cluster save fe1 fe1" in said
    assert not (tmp_path / "fe1").exists()


def test_networks_that_others_have_by_now_give_way_to_free_ones(
    typed: Typed, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(("cluster", "down", "--yes"), capsys)
    (tmp_path / "other.yaml").write_text("version: gpuprov/v1\nname: other\nnodes: {prefix: o}\n")
    typed((*UP, "-f", str(tmp_path / "other.yaml")), capsys)
    assert main(("cluster", "restore", str(archive)), host=typed.world.host) in (0, 1)  # nobody proves such nodes
    assert "create network gpbr2 10.0.7.1/24" in capsys.readouterr().out
    assert "name: lab" in typed(("cluster", "spec"), capsys)


def test_what_is_there_is_not_restored_over(typed: Typed, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(typed, capsys, "cluster", "restore", str(archive))
    assert "the cluster lab exists" in said


def test_an_archive_is_never_overwritten(typed: Typed, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(typed, capsys, "cluster", "save", str(archive), "other")
    assert "exists and is never overwritten" in said
    assert "choose a new file in a writable folder: gpuprov cluster save ./another-lab.tar other\n" in said
    said = refused(typed, capsys, "cluster", "save", str(archive.parent / "no" / "lab.tar"))
    assert f"evidence: {archive.parent / 'no'} is no folder\n" in said


def test_down_says_that_there_is_no_such_cluster(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed((*UP, "--name", "fresh"), capsys)
    assert main(("cluster", "down", "fersh", "--yes"), host=typed.world.host) == 0
    said = capsys.readouterr()
    assert said.out == "unchanged\n"
    assert "there is no cluster fersh; did you mean fresh?; clusters with nodes: fresh" in said.err
    assert main(("cluster", "down", "fresh", "--yes"), host=typed.world.host) == 0
    assert "there is no cluster" not in capsys.readouterr().err


def test_what_is_not_there_is_not_saved(typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "other.tar"
    assert main(("cluster", "save", str(target), "other"), host=typed.world.host) != 0
    assert "fix: " in capsys.readouterr().err
    typed((*UP, "--share", "false"), capsys)
    assert "its nodes share no folder" in refused(typed, capsys, "cluster", "save", str(target), "--shared")
    assert not target.exists()


def write_archive(path: Path, parts: dict[str, str]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, text in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


SAVED = '{"version": "gpuprov.saved-cluster/v1", "host": "h", "cluster": "lab", "gpuprov": "1", "saved": "s"'


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"saved.json": "{"},
        {"saved.json": "[]", "spec.yaml": ""},
        {"saved.json": f"{SAVED}}}", "spec.yaml": "version: gpuprov/v1"},
        {"saved.json": f'{SAVED}, "first_user": 0, "shared": false}}'},
        {"saved.json": f'{SAVED}, "first_user": 0, "shared": false}}', "spec.yaml": "version: gpuprov/v1\nnodes: 3"},
        {"saved.json": "x" * (4 * 2**20 + 1)},
        {"shared/x": "", "saved.json": SAVED},
    ],
)
def test_what_is_no_archive_makes_nothing(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, str]
) -> None:
    path = write_archive(tmp_path / "bad.tar", parts)
    keys = list(key_folder("lab").iterdir())
    refused(typed, capsys, "cluster", "restore", str(path))
    assert typed.world.names == []
    assert list(key_folder("lab").iterdir()) == keys


def test_a_spec_of_another_name_changes_no_other_cluster(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(UP, capsys)
    saved = SAVED.replace('"lab"', '"other"') + ', "first_user": 0, "shared": false}'
    spec = "version: gpuprov/v1\nname: lab\nnodes: {count: 1}\n"
    path = write_archive(tmp_path / "two.tar", {"saved.json": saved, "spec.yaml": spec})
    assert "is of two clusters" in refused(typed, capsys, "cluster", "restore", str(path))
    assert typed.world.names == ["c000", "c001"]
    assert not key_folder("other").exists()


@pytest.mark.parametrize("content", [b"", b"text", b"\x1f\x8b\x08\x00"])
def test_other_files_are_no_archives(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert "is no archive of a cluster" in refused(typed, capsys, "cluster", "restore", str(path))
    assert "there is no file" in refused(typed, capsys, "cluster", "restore", str(tmp_path / "absent"))


def test_one_that_was_cut_off_makes_nothing(
    typed: Typed, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(("cluster", "down", "--yes"), capsys)
    with tarfile.open(archive, "a") as found:
        member = tarfile.TarInfo("shared/big")
        member.size = 100_000
        found.addfile(member, io.BytesIO(bytes(member.size)))
    cut = tmp_path / "cut.tar"
    cut.write_bytes(archive.read_bytes()[:50_000])
    assert "is no archive of a cluster" in refused(typed, capsys, "cluster", "restore", str(cut))
    assert typed.world.names == []


@pytest.mark.slow
def test_a_folder_is_packed_and_unpacked_as_it_is(tmp_path: Path) -> None:
    source, target, archive = tmp_path / "source", tmp_path / "target", tmp_path / "a.tar"
    (source / "jobs/1").mkdir(parents=True)
    (source / "jobs/1/out with a blank, and a comma").write_text("42")
    (source / "jobs/1/out with a blank, and a comma").chmod(0o640)
    (source / "link").symlink_to("/etc/passwd")
    (source / "shared").write_text("of that name")
    (source / ".hidden").write_text("")
    write_archive(archive, {"saved.json": "{}"})
    pack_folder(str(source), archive, name="shared")
    target.mkdir()
    unpack_folder(archive, str(target), name="shared", moved=0)
    assert (target / "jobs/1/out with a blank, and a comma").read_text() == "42"
    assert (target / "jobs/1/out with a blank, and a comma").stat().st_mode & 0o777 == 0o640
    assert (target / "link").readlink() == Path("/etc/passwd")
    assert sorted(path.name for path in target.iterdir()) == [".hidden", "jobs", "link", "shared"]
    with tarfile.open(archive) as found:
        assert found.getnames()[0] == "saved.json"


@pytest.mark.slow
def test_what_a_node_wrote_has_a_limit_of_size(tmp_path: Path) -> None:
    source, archive = tmp_path / "source", tmp_path / "a.tar"
    (source / "saved").mkdir(parents=True)
    with (source / "saved/restore.sql.gz").open("wb") as file:
        file.truncate(2**40)
    write_archive(archive, {"saved.json": "{}"})
    with pytest.raises(CommandFailed):
        pack_folder(str(source), archive, name="accounting", part="./saved", most_bytes=100_000)
    assert archive.stat().st_size <= 200_000
