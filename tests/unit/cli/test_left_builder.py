"""What a killed image build leaves is shown, with what removes it, and that does remove it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.cluster.build_image import OWNER
from gpuprov.drivers.base import BUILDER, LABEL_CLUSTER, LABEL_ROLE, ROLE_BUILDER
from tests.fakes.engine import FakeNode
from tests.schemas import validate

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed


@pytest.fixture
def left(typed: Typed) -> Typed:
    """A builder, beside the image that another run has made since."""
    labels = {LABEL_CLUSTER: OWNER, LABEL_ROLE: ROLE_BUILDER}
    typed.world.engine.nodes[BUILDER] = FakeNode(name=BUILDER, labels=labels, status="running")
    return typed


def test_it_is_listed_and_the_command_that_is_named_removes_it(left: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"], host=left.world.host) == 0
    listed = capsys.readouterr()
    assert BUILDER in listed.out
    fix = "gpuprov image build --engine lxd"
    assert f"{BUILDER} in lxd is an image build, under way or interrupted; the next one removes it: {fix}" in listed.err
    assert main(["image", "list"], host=left.world.host) == 0
    images = capsys.readouterr()
    assert f"{BUILDER}  " in images.out
    assert fix in images.err
    document = json.loads(left(["image", "list", "--json"], capsys))
    validate(document)
    assert document["unfinished"] == [{"name": BUILDER, "engine": "lxd", "status": "running"}]
    left(["image", "build", "--role", "plain", "--engine", "lxd"], capsys)
    assert BUILDER not in left.world.engine.nodes
    assert json.loads(left(["list", "--json"], capsys))["nodes"] == []


def test_a_foreign_instance_of_that_name_is_none(left: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    left.world.engine.nodes[BUILDER].labels.clear()
    assert BUILDER not in left(["list"], capsys)
    assert BUILDER not in left(["image", "list"], capsys)
    left(["image", "build", "--role", "plain"], capsys)
    assert BUILDER in left.world.engine.nodes
