"""`host prepare --refresh`: what images are built from is made anew, and nothing old goes before that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster import refresh_cache as story
from gpuprov.cluster.build_image import FRESH_TOOLS, BuildTools
from gpuprov.cluster.images import node_recipe
from gpuprov.cluster.refresh_cache import refresh_cache
from gpuprov.core.errors import HostNotReady
from gpuprov.roles.registry import ROLES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.world import World

OLD = "rootfs-trixie-systemd-0123456789ab.tar"


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The suites whose security updates were looked for; those of trixie cannot be fetched."""
    suites: list[str] = []

    def fetch(suite: str, **_: object) -> None:
        suites.append(suite)
        if suite == "trixie":
            raise HostNotReady("no list", evidence="refused", fix="apt-get update")

    monkeypatch.setattr(story, "fetch_index", fetch)
    return suites


def old_cache(folder: Path) -> Path:
    """A cache with a base of long ago."""
    folder.mkdir()
    (folder / OLD).touch()
    os.utime(folder / OLD, (0, 0))
    return folder


def rootfs(_base: object, *, cache: Path, **_: object) -> Path:
    """A base that is built at once."""
    made = cache / "rootfs-bookworm-systemd-0123456789ab.tar"
    made.touch()
    return made


def wheels(_requirements: object, *, cache: Path, **_: object) -> list[Path]:
    """Wheels that were fetched long ago, and are locked."""
    (cache / "wheels-3.11-0123456789ab").mkdir()
    os.utime(cache / "wheels-3.11-0123456789ab", (0, 0))
    return [cache / "wheels-3.11-0123456789ab/numpy.whl"]


def test_the_parts_of_an_image_are_made_anew_and_older_ones_go(world: World, looked: list[str], tmp_path: Path) -> None:
    cache = old_cache(tmp_path / "cache")
    recipe = node_recipe(world.spec(1), ROLES["slurm"].recipe, world.gpus, init="systemd")
    tools = BuildTools(rootfs=rootfs, wheels=wheels)
    changed = refresh_cache(recipe, world.host, reporter=world.reporter, cache=cache, tools=tools)
    assert looked == ["bookworm", "trixie"]
    assert changed == (
        "fetched the lists of security updates",
        "built rootfs-bookworm-systemd-0123456789ab.tar",
        f"removed {OLD}",
    )
    assert {path.name for path in cache.iterdir()} == {
        "rootfs-bookworm-systemd-0123456789ab.tar",
        "wheels-3.11-0123456789ab",
    }
    assert "no list; `image list` compares with an older list, if there is one" in "\n".join(world.reporter.lines)


def test_where_a_part_cannot_be_made_nothing_old_goes(world: World, looked: list[str], tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> Path:
        raise HostNotReady("no mirror", evidence="refused", fix="apt-get update")

    cache = old_cache(tmp_path / "cache")
    recipe = node_recipe(world.spec(1), ROLES["slurm"].recipe, world.gpus, init="systemd")
    with pytest.raises(HostNotReady, match="no mirror"):
        refresh_cache(
            recipe, world.host, reporter=world.reporter, cache=cache, tools=BuildTools(rootfs=fail, wheels=wheels)
        )
    assert looked == ["bookworm", "trixie"]
    assert (cache / OLD).exists()


def test_what_is_made_anew_is_not_taken_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools of a refresh pass over a base that is there and young."""
    from gpuprov.provision.kept_bases import Base

    base = Base(suite="bookworm", packages=("python3",))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("gpuprov.provision.rootfs.take_base", lambda _tar: True)
    assert BuildTools().rootfs(base, cache=tmp_path).name.startswith("rootfs-bookworm")
    with pytest.raises(HostNotReady, match="mmdebstrap is not installed"):
        FRESH_TOOLS.rootfs(base, cache=tmp_path)
