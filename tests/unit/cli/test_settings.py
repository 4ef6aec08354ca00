"""The engine and the cluster that are implied: typed before environment before file, and what is wrong is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.settings import CLUSTER, ENGINE, DecidingFile, cluster_of, engine_of
from gpuprov.core.errors import UsageError
from gpuprov.core.names import imply_cluster, name_cluster
from gpuprov.shapes.choices import DEFAULT_CLUSTER
from tests.unit.cli.test_docs import LEAVES, find

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.cli.conftest import Typed


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The settings file of a user, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in (ENGINE, CLUSTER):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "config/gpuprov/settings.yaml"
    path.parent.mkdir(parents=True)
    yield path
    imply_cluster(DEFAULT_CLUSTER)


def test_typed_before_environment_before_file(
    file: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.world.begin_with(2)

    def missing(*argv: str) -> str:
        assert main(["cluster", "status", *argv], host=typed.world.host) == 2
        return capsys.readouterr().err

    assert main(["cluster", "status"], host=typed.world.host) == 0  # lab
    file.write_text("cluster: of-file\n")
    assert "there is no cluster of-file" in missing()
    monkeypatch.setenv(CLUSTER, "of-env")
    assert "there is no cluster of-env" in missing()
    assert "there is no cluster of-hand" in missing("of-hand")
    monkeypatch.setenv(CLUSTER, "")  # as good as none
    assert "there is no cluster of-file" in missing()
    assert main(["cluster", "status", "lab"], host=typed.world.host) == 0


def test_an_error_says_where_the_name_is_from(
    file: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.world.begin_with(2)

    def evidence(*argv: str) -> str:
        assert main(list(argv), host=typed.world.host) != 0
        return next(line for line in capsys.readouterr().err.splitlines() if line.startswith("evidence: "))

    file.write_text("cluster: of-file\n")
    assert evidence("cluster", "status").endswith(f"; of-file is named by {file}")
    monkeypatch.setenv(CLUSTER, "of-env")
    assert evidence("jobs").endswith("; of-env is named by GPUPROV_CLUSTER")
    assert "named by" not in evidence("jobs", "--cluster", "of-hand")
    monkeypatch.setenv(ENGINE, "incus")
    assert evidence("show", "c000").endswith("; incus is named by GPUPROV_ENGINE")
    assert "named by" not in evidence("show", "c000", "--engine", "incus")


@pytest.mark.parametrize(
    ("argv", "fix"),
    [
        (("jobs", "logs", "abc", "--cluster", "fe1"), "list the jobs: gpuprov jobs --cluster fe1"),
        (("jobs", "wait", "1.x", "--cluster=fe1"), "list the jobs: gpuprov jobs --cluster fe1"),
    ],
)
def test_a_fix_keeps_the_cluster_that_was_typed(
    typed: Typed, argv: tuple[str, ...], fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(argv), host=typed.world.host) == 2
    assert f"fix: {fix}\n" in capsys.readouterr().err


def test_an_engine_likewise(file: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    typed.world.begin_with(2)
    file.write_text("engine: docker\n")
    assert main(["show", "c000"], host=typed.world.host) != 0  # docker does not have it
    monkeypatch.setenv(ENGINE, "lxd")
    assert main(["show", "c000"], host=typed.world.host) == 0
    monkeypatch.setenv(ENGINE, "incus")
    assert main(["show", "c000", "--engine", "lxd"], host=typed.world.host) == 0


def test_a_spec_file_decides_by_itself(file: Path, typed: Typed) -> None:
    file.write_text("engine: docker\ncluster: other\n")
    spec = file.with_name("lab.yaml")
    spec.write_text("version: gpuprov/v1\nname: lab\nengine: lxd\nnodes: {count: 1, role: plain}\n")
    assert main(["cluster", "plan", "-f", str(spec)], host=typed.world.host) == 0


def test_a_file_that_is_written_decides_nothing(
    file: Path, typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else another cluster is saved than the one that is removed next."""
    typed.world.begin_with(1)
    file.write_text("cluster: other\n")
    assert main(["cluster", "save", str(tmp_path / "other.tar")], host=typed.world.host) == 2
    assert "there is no cluster other" in capsys.readouterr().err
    assert not (tmp_path / "other.tar").exists()


@pytest.mark.parametrize("verb", [("bundle",), ("cluster", "save")], ids=" ".join)
def test_nor_of_the_engine(
    file: Path, typed: Typed, tmp_path: Path, verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("engine: podman\n")
    assert main([*verb, str(tmp_path / "new")], host=typed.world.host) == 2
    assert ":1: engine: " in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_files_that_decide_are_specs_and_saved_clusters() -> None:
    """Every other file is one like any argument, whatever its parameter is called."""
    deciding = {verb for verb in LEAVES if any(isinstance(one.type, DecidingFile) for one in find(verb).params)}
    assert deciding == {"cluster up", "cluster plan", "cluster restore", "image build"}


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("engine: podman\n", ":1: engine: "),
        ("cluster: lab\nclustre: x\n", ":2: clustre: "),
        ("cluster: Not A Name\n", ":1: cluster: "),
        ("- lab\n", ":1: is no mapping"),
        ("cluster: [\n", ": is not YAML"),
    ],
)
def test_what_is_wrong_with_the_file_is_told_with_its_line(
    file: Path, typed: Typed, text: str, evidence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert main(["cluster", "status"], host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert "error: the settings file is not valid" in said
    assert evidence in said
    assert f"fix: edit {file}, or remove it" in said
    for harmless in (["--help"], ["cluster", "status", "--help"], ["explain", "NVRM: Xid 79"]):
        assert main(harmless, host=typed.world.host) == 0


def test_a_variable_that_is_wrong_is_named(file: Path) -> None:
    assert not file.exists()
    with pytest.raises(UsageError, match="GPUPROV_ENGINE names no engine"):
        engine_of({ENGINE: "podman"})
    with pytest.raises(UsageError, match="GPUPROV_CLUSTER is not a cluster name"):
        cluster_of({CLUSTER: "A B"})


def test_commands_in_messages_name_the_cluster_that_is_not_implied(file: Path) -> None:
    assert not file.exists()
    imply_cluster("two")
    assert name_cluster("gpuprov cluster status", "lab") == "gpuprov cluster status lab"
    assert name_cluster("gpuprov cluster status", "two") == "gpuprov cluster status"
