"""`image rm`: several by name, or all that nobody uses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.drivers.base import LABEL_FINGERPRINT
from tests.unit.cli.test_agreement import Terminal

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed


@pytest.fixture
def images(typed: Typed) -> Typed:
    """Those of the roles, of which one has two nodes; and an older and a newer one of such a recipe, and of another."""
    typed.world.begin_with(2)
    kept = typed.world.engine.images
    used, worker = kept["slurm"], kept["worker"]
    more = (
        replace(used, id="old", name="old", labels={**used.labels, LABEL_FINGERPRINT: "feed0"}),
        replace(worker, id="superseded", name="superseded"),
        *kept.values(),
        replace(used, id="refreshed", name="refreshed"),
    )  # the newest is last
    kept.clear()
    kept.update({image.id: image for image in more})
    return typed


def names(typed: Typed) -> set[str]:
    return {image.name for image in typed.world.engine.images.values()}


def test_unused_ones_go_if_it_is_agreed(
    images: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(images)
    assert main(["image", "rm", "--unused"], host=images.world.host) == 2
    said = capsys.readouterr().err
    assert "old in lxd" in said
    assert "superseded in lxd" in said
    assert "gpuprov image rm --unused --yes" in said
    somebody = Terminal(monkeypatch, "no")
    assert main(["image", "rm", "--unused"], host=images.world.host) == 2
    assert names(images) == before
    somebody.answer = "yes"
    assert images(["image", "rm", "--unused"], capsys) == "removed image old\nremoved image superseded\n"
    assert names(images) == before - {"old", "superseded"}
    assert images(["image", "rm", "--unused"], capsys) == "unchanged\n"
    assert len(somebody.asked) == 2


def test_several_are_named(images: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    assert images(["image", "rm", "superseded", "nothing", "feed0"], capsys) == (
        "removed image superseded\nremoved image old\n"
    )


@pytest.mark.parametrize("argv", [(), ("--unused", "old")])
def test_neither_or_both_is_refused(images: Typed, argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    before = names(images)
    assert main(["image", "rm", *argv], host=images.world.host) == 2
    assert "gpuprov image rm --unused" in capsys.readouterr().err
    assert names(images) == before
