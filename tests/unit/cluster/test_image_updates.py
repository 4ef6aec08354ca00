"""Which images lack security updates, and what is said of that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.image_updates import DAY_S, ImageUpdates, update_notes, updates_of
from gpuprov.drivers.base import LABEL_PACKAGES
from gpuprov.provision import security_index
from gpuprov.provision.package_versions import dump_versions
from gpuprov.shapes.engine import ImageState

if TYPE_CHECKING:
    from pathlib import Path

NOW = 100 * DAY_S


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a list of bookworm's updates."""
    monkeypatch.setattr(security_index, "MACHINE_CACHE", tmp_path)
    kept = {"fetched": NOW, "versions": {"bash": "5.2-3", "tar": "1.34-2"}}
    (tmp_path / "security-bookworm.json").write_text(json.dumps(kept))
    return tmp_path


def image(*packages: str, suite: str = "bookworm") -> ImageState:
    """An image that recorded its packages."""
    label = dump_versions("\n".join([f"debian {suite}", *packages]))
    return ImageState(id="i", name="i", labels={LABEL_PACKAGES: label})


@pytest.mark.parametrize(
    ("found", "state", "cell"),
    [
        (image("bash 5.2-3", "vim 9"), "current", "current"),
        (image("bash 5.2-2", "tar 1.34-1"), "lacking", "lacks 2"),
        (image("bash 5.2-2", suite="trixie"), "unknown", "unknown"),
        (ImageState(id="i", name="i"), "unknown", "unknown"),
    ],
)
def test_an_image_is_compared_with_the_list_of_its_suite(found: ImageState, state: str, cell: str, cache: Path) -> None:
    updates = updates_of(found, cache)
    assert (updates.state, updates.describe()) == (state, cell)
    assert updates.looked == (None if state == "unknown" else NOW)


def test_what_to_do_is_said_once_for_all_images() -> None:
    many = tuple("abcdefg")
    found = [
        ImageUpdates(state="lacking", lacking=many, looked=NOW),
        ImageUpdates(state="current", looked=NOW - 40 * DAY_S),
        ImageUpdates(state="unknown"),
        ImageUpdates(state="unknown", recorded=False),
    ]
    lacking, earlier, unknown, stale = update_notes(found, NOW)
    assert lacking.startswith("1 of 4 images lack security updates (a, b, c, d, e and 2 more); to build a new one")
    assert lacking.endswith(": gpuprov image build --refresh")
    assert earlier == "1 of 4 images are of an earlier gpuprov and do not say what they have"
    assert "were never fetched" in unknown
    assert stale == "security updates were last looked for 40 days ago: sudo gpuprov host prepare --refresh"
    assert update_notes([ImageUpdates(state="current", looked=NOW)], NOW) == ()
    assert update_notes([], NOW) == ()
