"""`sssd` of a cluster over hosts: the machine on which a command is typed sends the file to all hosts."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.images import node_recipe
from gpuprov.cluster.sssd_files import APPLIED, ASK, CONF, MORE, sssd_files
from gpuprov.drivers.base import LABEL_FINGERPRINT, LABEL_RECIPE, ExecResult
from gpuprov.lifecycle import files as files_of_nodes
from gpuprov.provision.recipe_record import dump_recipe_record, record_recipe
from gpuprov.roles.registry import ROLES
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.sssd import LABEL_SSSD
from tests.unit.cli.test_spanning import SPEC, Typing, at_the_controller
from tests.unit.cli.test_sssd import ANSWERS
from tests.unit.spec.test_sssd import CONF as TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Recording
    from tests.fakes.engine import Command, FakeNode

pytestmark = pytest.mark.slow

UP = ("cluster", "up", "--no-verify")
GROUPS = "/var/lib/extrausers/group"


@pytest.fixture
def lab(
    tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typing:
    """Two hosts, whose own files at that path are not looked at, and a spec that names one of the controller."""
    lab = at_the_controller(tmp_path, recording, monkeypatch, capsys)
    (tmp_path / "sssd.conf").write_text(TEXT)
    Path(lab.file).write_text(f"{SPEC}sssd: sssd.conf\n")
    monkeypatch.delattr(files_of_nodes, "read_sssd")

    for world in lab.hosts.worlds.values():
        for role, image in world.engine.images.items():
            recipe = node_recipe(ClusterSpec(sssd="/sssd.conf"), ROLES[role].recipe, world.gpus, init="systemd")
            record = record_recipe(recipe, recipe.hash_contents())
            known = {LABEL_FINGERPRINT: record.fingerprint, LABEL_RECIPE: dump_recipe_record(record)}
            world.engine.images[role] = replace(image, labels={**image.labels, **known, LABEL_SSSD: "sssd"})
        world.engine.answer = partial(_answer, world.engine.answer)
    return lab


def _answer(others: Callable[[Command], ExecResult], command: Command) -> ExecResult:
    if command.argv[0] == ASK:
        return ExecResult(exit_code=0, stdout=json.dumps(ANSWERS), stderr="")
    return others(command)


def nodes_of(lab: Typing) -> dict[str, FakeNode]:
    return {name: node for world in lab.hosts.worlds.values() for name, node in world.engine.nodes.items()}


def texts(lab: Typing) -> set[str]:
    return {node.files[CONF].content.decode() for node in nodes_of(lab).values()}


def test_all_nodes_get_the_file_of_the_controller_and_a_change_of_it(lab: Typing) -> None:
    lab.type(*UP, "-f", lab.file)
    assert len(nodes_of(lab)) == 4
    assert texts(lab) == {TEXT}
    assert {node.files[CONF].mode for node in nodes_of(lab).values()} == {0o600}
    assert "unchanged" in lab.type(*UP)
    conf = Path(lab.file).with_name("sssd.conf")
    conf.write_text(TEXT.replace("a.example", "c.example"))
    planned = lab.type("cluster", "plan")
    assert "hinton: renew sssd on c[002-003]" in planned
    assert texts(lab) == {TEXT}
    assert "hoff: renew sssd on c[000-001]" in lab.type(*UP)
    assert texts(lab) == {conf.read_text()}


def test_it_is_in_no_word_and_no_label(lab: Typing) -> None:
    assert "hunter2" in TEXT
    said = lab.type("--verbose", *UP, "-f", lab.file) + lab.errors
    said += lab.type("cluster", "spec", "lab") + json.dumps(lab.json("cluster", "status"))
    for world in lab.hosts.worlds.values():
        said += "".join(str(node.labels) for node in world.engine.nodes.values())
        said += "".join(str(network.labels) for network in world.engine.networks.values())
    assert "hunter2" not in said


def test_a_new_node_gets_it_on_another_host(lab: Typing) -> None:
    lab.type(*UP, "-f", lab.file)
    lab.type("create-node", "c007", "--host", "hinton", "--gpus", "0")
    assert texts(lab) == {TEXT}
    assert len(nodes_of(lab)) == 5


def test_whoever_does_not_have_it_brings_no_cluster_up_and_makes_no_node(lab: Typing) -> None:
    lab.type(*UP, "-f", lab.file)
    Path(lab.file).with_name("sssd.conf").unlink()
    before = [world.engine.dump() for world in lab.hosts.worlds.values()]
    for command in (UP, ("create-node", "c007", "--gpus", "0"), ("person", "add", "dora")):
        lab.type(*command, expect=2)
        assert "the hosts of cluster lab cannot be sent its sssd.conf" in lab.errors
        assert "sssd.conf cannot be read: No such file or directory" in lab.errors
    assert [world.engine.dump() for world in lab.hosts.worlds.values()] == before


def test_other_commands_leave_nodes_what_they_have(lab: Typing) -> None:
    lab.type(*UP, "-f", lab.file)
    before = {name: {path: node.files[path] for path in (CONF, MORE, APPLIED)} for name, node in nodes_of(lab).items()}
    groups = nodes_of(lab)["c003"].files[GROUPS]
    Path(lab.file).with_name("sssd.conf").unlink()
    lab.type("stop", "c003")
    lab.type("start", "c003")
    lab.type("rm", "c002")
    after = nodes_of(lab)
    assert after.keys() == {"c000", "c001", "c003"}
    assert {name: {path: node.files[path] for path in before[name]} for name, node in after.items()} == {
        name: before[name] for name in after
    }
    assert after["c003"].files[GROUPS] == groups
    assert groups.content == b"people:x:59401:\n", "the node has people of a directory"


def test_a_file_that_would_leave_nodes_without_anybody_is_refused(lab: Typing) -> None:
    conf = Path(lab.file).with_name("sssd.conf")
    conf.write_text("[sssd]\ndomains = a\n[domain/a]\nid_provider = ad\nldap_default_authtok = hunter2\n")
    lab.type(*UP, "-f", lab.file, expect=2)
    assert "evidence: lacks sssd-ad, which the provider ad of sssd needs" in lab.errors
    assert "hunter2" not in lab.errors
    assert nodes_of(lab) == {}


def test_it_goes_with_the_key(lab: Typing) -> None:
    lab.type(*UP, "-f", lab.file)
    Path(lab.file).write_text(SPEC)
    assert "people, sssd on c[002-003]" in lab.type(*UP, "-f", lab.file)
    (nothing,) = sssd_files(None, shared=False)
    assert {node.files[APPLIED].content for node in nodes_of(lab).values()} == {nothing.content}
    assert lab.json("cluster", "plan")["plan"] == []
