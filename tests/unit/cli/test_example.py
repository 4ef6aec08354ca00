"""`example lab`: an inventory that Ansible reads, in a folder of its own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from gpuprov.cli.main import main

FILES = {"README.md", "group_vars/lab.yml", "hosts.yml", "lab.yml"}
SOURCE = Path(__file__).parents[3] / "inventories/lab"


def written(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_it_writes_what_is_missing_and_names_a_playbook_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--json", "example", "lab"]) == 0
    changed = json.loads(capsys.readouterr().out)["changed"]
    assert {line.removeprefix("wrote lab/") for line in changed} == FILES
    first = written(tmp_path / "lab")
    assert set(first) == FILES
    assert first["hosts.yml"] == (SOURCE / "hosts.yml").read_text()
    (play,) = yaml.safe_load(first["lab.yml"])
    assert Path(play["ansible.builtin.import_playbook"]).is_file()
    assert main(["example", "lab"]) == 0
    assert "unchanged" in capsys.readouterr().out
    (tmp_path / "lab/hosts.yml").unlink()
    assert main(["example", "lab", "lab"]) == 0
    assert capsys.readouterr().out == "wrote lab/hosts.yml\n"
    assert written(tmp_path / "lab") == first


@pytest.mark.parametrize(
    ("name", "content"), [("mine", ""), ("hosts.yml", "all: {}\n"), ("group_vars/mine.yml", ""), ("mine/deep", "")]
)
def test_a_folder_with_anything_else_is_refused_and_left_as_it_is(
    name: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(content)
    assert main(["example", "lab", str(folder)]) == 2
    what, evidence, fix = capsys.readouterr().err.splitlines()[:3]
    assert what == f"error: {folder} is not empty"
    assert evidence == f"evidence: it has {name}"
    assert fix.endswith("gpuprov example lab FOLDER")
    assert written(folder) == {name: content}


@pytest.mark.slow
def test_a_program_is_written_that_runs_as_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["example", "program"]) == 0
    (said,) = [line for line in capfd.readouterr().err.splitlines() if "next: " in line]
    words = shlex.split(said.partition("next: gpuprov ")[2])
    assert main(words) == 0
    assert json.loads(capfd.readouterr().out) == {"column": 1, "rows": 5, "sum": 12.5}
    monkeypatch.chdir(tmp_path / "program")
    page = Path("README.md").read_text().splitlines()
    commands = [shlex.split(line.strip(), comments=True)[1:] for line in page if line.startswith("    gpuprov ")]
    assert [argv[0] for argv in commands] == ["program", "program", "cluster", "program", "cluster"]
    assert main(commands[0]) == 0
    assert main([*commands[2], "--help"]) == main([*commands[3], "--help"]) == 0
    assert yaml.safe_load(Path("cluster.yaml").read_text())["image"] == {"toolkit": True}
    assert main(["example", "program", "."]) == 0
    assert "unchanged" in capfd.readouterr().out


def test_a_folder_that_cannot_be_written_is_an_error_in_three_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["example", "lab", str(tmp_path / "file")]) == 3
    assert "Not a directory" in capsys.readouterr().err
