"""`sssd` of a spec on a fake engine: nodes get a site's file, sssd starts again, and goes with the key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.cluster.sssd_files import APPLIED, ASK, CONF, MORE
from gpuprov.drivers.base import ExecResult
from gpuprov.spec.sssd import LABEL_SSSD
from tests.unit.spec.test_people import key
from tests.unit.spec.test_sssd import CONF as TEXT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.engine import Command
    from tests.unit.cli.conftest import Typed

SPEC = "version: gpuprov/v1\nnodes: {count: 2}\n"
ANSWERS = {"answers": True, "offline": False, "said": ""}
SILENT = {"answers": False, "offline": False, "said": "[be[site]] Unable to load module nosuch"}


class Site:
    """A cluster of two nodes whose image has sssd, a spec that names a file, and what sssd says."""

    def __init__(self, typed: Typed, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.typed, self.capsys, self.spec, self.conf = typed, capsys, folder / "lab.yaml", folder / "sssd.conf"
        self.said: object = ANSWERS
        self.argvs: list[tuple[str, tuple[str, ...]]] = []
        typed.world.begin_with(2)
        for node in typed.world.engine.nodes.values():
            node.labels[LABEL_SSSD] = "sssd"
        answer = typed.world.engine.answer

        def note(command: Command) -> ExecResult:
            self.argvs.append((command.node.name, tuple(command.argv)))
            if command.argv[0] == ASK:
                return ExecResult(exit_code=0, stdout=json.dumps(self.said), stderr="")
            return answer(command)

        typed.world.engine.answer = note

    def up(self, *, sssd: bool = True, expect: int = 0) -> str:
        self.argvs.clear()
        self.spec.write_text(SPEC + ("sssd: sssd.conf\n" if sssd else ""))
        return self.type(
            "cluster", "up", "-f", str(self.spec), "--gpu-mode", "simulated", "--no-verify", "--yes", expect=expect
        )

    def type(self, *argv: str, expect: int = 0) -> str:
        self.capsys.readouterr()
        assert main(argv, host=self.typed.world.host) == expect
        said = self.capsys.readouterr()
        assert "hunter2" not in said.out + said.err
        return said.out + said.err

    def ran(self, *words: str) -> list[str]:
        return sorted(node for node, argv in self.argvs if all(word in " ".join(argv) for word in words))

    def files(self, node: str) -> set[str]:
        return {CONF, MORE, APPLIED} & self.typed.world.engine.nodes[node].files.keys()


@pytest.fixture
def site(typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Site:
    return Site(typed, capsys, tmp_path)


def test_nodes_get_the_file_and_again_when_it_changes_and_lose_it_with_the_key(site: Site) -> None:
    site.conf.write_text(TEXT)
    assert "sssd on c[000-001]" in site.up()
    assert site.typed.world.file("c001", CONF) == TEXT
    assert site.ran("restart", "sssd") == site.ran(ASK) == ["c000", "c001"]
    assert all(TEXT not in str(node.labels) for node in site.typed.world.engine.nodes.values())
    assert "unchanged" in site.up()
    site.conf.write_text(TEXT.replace("a.example", "c.example"))
    assert "renew sssd on c[000-001]" in site.up()
    assert "c.example" in site.typed.world.file("c000", CONF)
    assert "sssd on c[000-001]" in site.up(sssd=False)
    assert site.ran("stop", "sssd") == site.ran("rm -f", CONF) == ["c000", "c001"]
    assert site.ran(ASK) == []
    assert "unchanged" in site.up(sssd=False)


def test_a_sssd_that_does_not_start_is_an_error_in_its_words_and_tried_again(site: Site) -> None:
    site.conf.write_text(TEXT)
    site.said = SILENT
    said = site.up(expect=4)
    assert "sssd does not start on c00" in said
    assert "Unable to load module nosuch" in said
    site.said = ANSWERS
    assert "sssd on c[000-001]" in site.up()


@pytest.mark.parametrize("said", [[], {}, {"answers": "yes", "said": 3}, {"answers": True}, None])
def test_what_a_node_says_of_it_is_read_strictly(site: Site, said: object) -> None:
    site.conf.write_text(TEXT)
    site.said = said
    assert "sssd does not start on c00" in site.up(expect=4)


def test_nothing_changes_where_the_file_is_none(site: Site) -> None:
    before = site.typed.world.engine.dump()
    assert "cannot be read: No such file" in site.up(expect=2)
    site.conf.write_text("[sssd]\n")
    assert "lists no domains" in site.up(expect=2)
    assert site.typed.world.engine.dump() == before


def test_nodes_keep_theirs_while_the_file_cannot_be_read(site: Site) -> None:
    site.conf.write_text(TEXT)
    site.up()
    groups = site.typed.world.file("c001", "/var/lib/extrausers/group")
    site.conf.unlink()
    assert main(("stop", "c001"), host=site.typed.world.host) == 0
    assert main(("start", "c001"), host=site.typed.world.host) == 0
    assert site.files("c001") == {CONF, MORE, APPLIED}
    assert site.typed.world.file("c001", "/var/lib/extrausers/group") == groups == "people:x:59401:\n"
    assert "cannot be read" in site.up(expect=2)


def test_nodes_of_an_image_without_sssd_are_left_alone(site: Site) -> None:
    site.conf.write_text(TEXT)
    del site.typed.world.engine.nodes["c001"].labels[LABEL_SSSD]
    site.up()
    assert site.files("c000") == {CONF, MORE, APPLIED}
    assert site.files("c001") == set()
    assert site.ran(ASK) == ["c000"]


def test_somebody_of_the_directory_gets_an_account_of_people_and_a_limit_and_none_in_the_nodes(site: Site) -> None:
    site.conf.write_text(TEXT)
    site.up()
    added = site.type("person", "add", "dora", "--account", "vision", "--gpus", "1")
    assert added.startswith("add people: dora (account: vision, gpus: 1)\nrenew ")
    assert site.typed.world.file("c001", "/var/lib/extrausers/passwd") == ""
    assert site.typed.world.file("c001", "/etc/gpuprov/people/limits") == "dora 1\n"
    assert site.type("person", "add", "dora", "--account", "vision", "--gpus", "1").startswith("unchanged\n")
    site.type("person", "add", "ann", "--uid", "10001", "--account", "vision")
    assert site.typed.world.file("c001", "/var/lib/extrausers/passwd").startswith("ann:x:10001:")
    ann, dora = json.loads(site.type("--json", "person", "list"))["people"]
    assert (ann["uid"], ann["home"]) == (10001, "/home/ann")
    assert (dora["uid"], dora["home"], dora["account"], dora["gpus"], dora["keys"]) == (None, None, "vision", 1, [])
    assert "dora  -      vision   1     0     -" in site.type("person", "list")
    assert "gpus: 2 (until now 1)" in site.type("person", "set", "dora", "--gpus", "2")
    assert "other gpus\nevidence: number of the directory," in site.type(
        "person", "add", "dora", "--gpus", "3", expect=2
    )
    assert "remove people: dora" in site.type("person", "rm", "dora")


def test_nobody_of_the_directory_gets_keys(site: Site) -> None:
    site.conf.write_text(TEXT)
    site.up()
    site.type("person", "add", "dora")
    pub = site.conf.with_name("dora.pub")
    pub.write_text(key())
    before = site.typed.world.engine.dump()
    said = site.type("person", "set", "dora", "--key", str(pub), expect=2)
    assert "people[0].keys: are of somebody without uid, whose keys the directory has" in said
    assert site.typed.world.engine.dump() == before


def test_without_its_directory_nobody_of_it_stays(site: Site) -> None:
    site.conf.write_text(TEXT)
    site.up()
    site.type("person", "add", "dora")
    before = site.typed.world.engine.dump()
    site.spec.write_text(f"{SPEC}people: [{{name: dora}}]\n")
    said = site.type("cluster", "up", "-f", str(site.spec), "--gpu-mode", "simulated", "--yes", expect=2)
    assert "people[0]: line 3: has no uid (allowed: 1000 to 59399; with `sssd` also none" in said
    assert site.typed.world.engine.dump() == before
