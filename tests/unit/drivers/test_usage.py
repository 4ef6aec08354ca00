from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.disk import StorageUse, rank_usage
from gpuprov.core.errors import EngineError
from gpuprov.drivers.docker.usage import parse_usage
from gpuprov.drivers.lxd import usage
from gpuprov.drivers.lxd.usage import pool_usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GIB = 1 << 30
BASE = "02015abb400a1bcf5dcaf62264ffe670cc5a3822719aa2de113cfa8e243199f3"
VOLUMES = [
    {"name": name, "type": kind, "location": location}
    for name, kind, location in (
        (BASE, "image", "none"),
        ("gpuprov-image-9e6fc727dcf0", "container", "none"),
        ("c000", "container", "none"),
        ("c000/before", "container", "none"),
        ("data", "custom", "none"),
        ("c009", "container", "m2"),
    )
]
# What stands for btrfs and du: sizes are those of the fake pool's files
PROGRAM = """#!/bin/sh
case "$1 $2" in
"subvolume list") cat "$4/list" ;;
"subvolume find-new") [ -e "$3" ] && echo "inode 257 file offset 0 len $4 disk start 0 offset 0 gen 9 flags NONE a"
    echo "inode 258 file offset 0 len 24 disk start 0 offset 0 gen 9 flags NONE b c"; echo "transid marker was 9" ;;
"filesystem du") echo "Total Exclusive Set_shared Filename"; echo "300 7 293 $6" ;;
*) echo "99 $5" ;;
esac
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pool = tmp_path / "pools/p"
    pool.mkdir(parents=True)
    for name in ("btrfs", "du"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(PROGRAM)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    paths = ["containers/c000", f"images/{BASE}", "containers/c009", "custom/data"]
    begun = [f"ID 9 gen 9 cgen {number}00 top level 5 path {path}" for number, path in enumerate(paths, 1)]
    (pool / "list").write_text("\n".join(["ID 1 gen 2 cgen x top level 5 path containers/odd", *begun, ""]))
    for path in paths:
        (pool / path).mkdir(parents=True)
    return pool


def lxd(pool: Path, driver: str, told: Callable[[str], Any] = lambda _: {}) -> Any:
    """An LXD with these volumes, of which it tells what `told` does."""

    def get(*path: str, **_: object) -> Any:
        match path:
            case (_, _):
                return {"driver": driver}
            case (_, _, "volumes"):
                return VOLUMES
            case (_, _, "volumes", _, name, "state"):
                return told(name)
        raise AssertionError(path)

    return SimpleNamespace(get=get, member="m1", storage_pools=pool.parent)


def sizes(api: Any) -> dict[str, int | None]:
    return {f"{one.kind} {one.name}": one.size_bytes for one in pool_usage(api, "p")}


def test_on_btrfs_what_was_written_since_is_counted_and_of_a_snapshot_what_it_has_alone(pool: Path) -> None:
    assert sizes(lxd(pool, "btrfs")) == {
        "node c000": 124,
        "snapshot c000/before": 7,
        "volume data": 424,
        "image gpuprov-image-9e6fc727dcf0": None,
        "base 02015abb400a": 224,
    }


def test_a_folder_is_counted_and_of_other_pools_the_engine_tells(pool: Path) -> None:
    assert set(sizes(lxd(pool, "dir")).values()) == {99}

    def told(name: str) -> Any:
        if name == "c000":
            return {"usage": {"used": 5 * GIB}}
        if name == "data":
            raise EngineError("not supported", evidence="", fix="")
        return {"usage": None}

    assert {name: size for name, size in sizes(lxd(pool, "zfs", told)).items() if size} == {"node c000": 5 * GIB}


def test_where_nothing_may_be_seen_or_there_is_no_time_nothing_is_told(
    pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pool / "list").write_text("ERROR: can't perform the search: Operation not permitted\n")
    found = {name: size for name, size in sizes(lxd(pool, "btrfs")).items() if "/" not in name}
    assert set(found.values()) == {None}
    monkeypatch.setattr(usage, "COUNT_S", 0.0)
    assert set(sizes(lxd(pool, "dir")).values()) == {None}
    assert rank_usage(pool_usage(lxd(pool, "dir"), "p")).words == ""


def test_docker_tells_what_is_shared_and_what_is_not() -> None:
    said = {
        "LayersSize": 9 * GIB,
        "Images": [
            {"Id": "sha256:aa", "RepoTags": ["gpuprov-image:9e6f"], "Size": 5 * GIB, "SharedSize": 2 * GIB},
            {"Id": "sha256:" + "b" * 64, "RepoTags": None, "Size": GIB, "SharedSize": -1},
            {"Id": "sha256:cc", "RepoTags": ["gpuprov-snapshot:u-s"], "Size": 3 * GIB, "SharedSize": 2 * GIB},
        ],
        "Containers": [{"Names": ["/c000"], "SizeRw": GIB}, {"Names": ["/c001"]}],
        "Volumes": [{"Name": "data", "UsageData": {"Size": -1}}],
        "BuildCache": [{"Size": 2 * GIB, "Shared": False}, {"Size": GIB, "Shared": True}],
    }
    assert {f"{one.kind} {one.name}": (one.size_bytes or 0) // GIB for one in parse_usage(said)} == {
        "image gpuprov-image:9e6f": 3,
        "image bbbbbbbbbbbb": 1,
        "snapshot gpuprov-snapshot:u-s": 1,
        "layers that images share": 4,
        "node c000": 1,
        "node c001": 0,
        "volume data": 0,
        "cache of builds": 2,
    }
    assert list(parse_usage({})) == []


def test_kinds_are_told_together_then_the_largest() -> None:
    def take(kind: str, name: str, gib: int | None) -> StorageUse:
        return StorageUse(kind=kind, name=name, size_bytes=None if gib is None else gib * GIB)

    taken = [*(take("image", str(size), size) for size in (1, 4, 2)), take("node", "c000", 3), take("node", "c1", 0)]
    ranked = rank_usage([*taken, take("base", "b", 1)])
    assert ranked.words == ("3 images 7.0 GiB, 2 nodes 3.0 GiB, image 4 4.0 GiB, node c000 3.0 GiB, image 2 2.0 GiB")
    assert rank_usage([*taken, take("base", "b", None)]).words.endswith("GiB (not all could be counted in 5 s)")
    assert rank_usage([]).words == ""
