"""The base of the contract tests: a real one takes half a minute to build, and they are to share it with clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.cluster.images import node_recipe
from gpuprov.cluster.services import init_of
from gpuprov.gpu.observe import observe
from gpuprov.provision.kept_bases import Base, import_name
from gpuprov.roles.registry import PLAIN
from gpuprov.shapes.cluster_spec import ClusterSpec
from tests.contract import engines
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine

if TYPE_CHECKING:
    import pytest


def test_contract_tests_start_from_the_base_of_plain_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Base] = []

    def build(base: Base, *, cache: Path) -> Path:
        assert cache
        asked.append(base)
        (tmp_path / "rootfs.tar").touch()
        return tmp_path / "rootfs.tar"

    monkeypatch.setattr(engines, "ensure_rootfs", build)
    driver = FakeDriver(FakeEngine())
    identity = engines.import_plain_base(driver)
    gpus = observe(root=Path("/"), mode="simulated")
    assert asked == [node_recipe(ClusterSpec(), PLAIN.recipe, gpus, init=init_of(driver)).rootfs]
    assert identity == f"image:{import_name(tmp_path / 'rootfs.tar')}"
