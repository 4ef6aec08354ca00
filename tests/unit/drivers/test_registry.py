"""The list of engines is spec's; the registry has them all, and so has whoever cannot import it."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from ansible_collections.gpuprov.cluster.plugins.doc_fragments.gpuprov import ModuleDocFragment
from ansible_collections.gpuprov.cluster.plugins.module_utils import serve
from gpuprov.drivers import registry
from gpuprov.drivers.registry import REGISTRY, choose_engine
from gpuprov.shapes.choices import DEFAULT_ENGINE, ENGINES

if TYPE_CHECKING:
    from gpuprov.shapes.choices import Engine

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60


def test_the_table_has_every_engine() -> None:
    assert tuple(REGISTRY) == ENGINES
    for entry in REGISTRY.values():
        assert callable(importlib.import_module(entry.module).connect)
        assert entry.daemons
        assert entry.packages


@pytest.mark.parametrize(("engine", "sdk"), [("lxd", "pylxd.models"), ("incus", "pylxd.models"), ("docker", "docker")])
def test_a_driver_is_loaded_with_its_sdk(engine: Engine, sdk: str) -> None:
    driver = f"{REGISTRY[engine].module.rpartition('.')[0]}.driver"
    program = (
        "import sys; from gpuprov.drivers.registry import load_driver;"
        f"before = {{*sys.modules}}; load_driver({engine!r});"
        f"assert {{{sdk!r}, {driver!r}}} <= {{*sys.modules}} - before"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_table_knows_which_nodes_run_systemd_before_their_engine_is_there(engine: Engine) -> None:
    package = REGISTRY[engine].module.rpartition(".")[0]
    drivers = vars(importlib.import_module(f"{package}.driver")).values()
    (driver,) = (one for one in drivers if isinstance(one, type) and one.__module__ == f"{package}.driver")
    assert REGISTRY[engine].systemd == ("systemd" in vars(driver)["capabilities"])


def test_ansible_s_literals_are_the_same_list() -> None:
    # imports so much of Ansible that every process which collects this file would begin a quarter of a second later
    from ansible_collections.gpuprov.cluster.plugins.connection import gpuprov as connection

    assert tuple(serve.ENGINE["choices"]) == ENGINES
    option = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]["engine"]
    assert tuple(option["choices"]) == ENGINES
    assert f"V({DEFAULT_ENGINE}) for new nodes" in option["description"]
    assert yaml.safe_load(connection.DOCUMENTATION)["options"]["engine"]["default"] == DEFAULT_ENGINE


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        (ENGINES, "lxd"),
        (("lxd", "docker"), "lxd"),
        (("incus", "docker"), "incus"),
        (("incus",), "incus"),
        (("docker",), "lxd"),
        ((), "lxd"),
    ],
    ids=str,
)
def test_what_is_new_is_for_lxd_or_for_incus_where_that_is_there_and_lxd_is_not(
    installed: tuple[str, ...], chosen: str
) -> None:
    assert choose_engine(installed) == chosen


def test_the_role_host_prepares_them_all() -> None:
    for spec in yaml.safe_load((ROOT / "roles/host/meta/argument_specs.yml").read_text())["argument_specs"].values():
        option = spec["options"].get("host_engine")
        assert option is None or tuple(option["choices"]) == ENGINES
    assert yaml.safe_load((ROOT / "roles/host/defaults/main.yml").read_text())["host_engine"] == DEFAULT_ENGINE


def test_requirements_and_documents_name_them_all() -> None:
    needs = json.loads(resources.files("gpuprov.core").joinpath("requirements.json").read_text())
    assert {tuple(role["engine"] or ENGINES) for role in needs["roles"].values()} == {ENGINES}
    assert f"`--engine {'|'.join(ENGINES)}`" in (ROOT / "docs/commands.md").read_text()
    row = re.search(r"^\| `engine` \|.*$", (ROOT / "docs/spec.md").read_text(), re.MULTILINE)
    assert row
    assert [cell.strip() for cell in row[0].split("|")[2:4]] == [
        f"`{DEFAULT_ENGINE}`",
        ", ".join(f"`{name}`" for name in ENGINES),
    ]


def test_an_engine_is_installed_where_its_daemon_is_also_outside_the_users_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bin", "sbin"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(registry, "_ADMIN", (str(tmp_path / "sbin"),))
    entry = registry.EngineEntry(module="", glance="", daemons=("lxd",), packages=(), units=(), logs=())
    monkeypatch.setattr(registry, "REGISTRY", {"lxd": entry, "docker": replace(entry, daemons=("dockerd",))})
    daemons: dict[Engine, Path] = {"lxd": tmp_path / "bin" / "lxd", "docker": tmp_path / "sbin" / "dockerd"}
    for engine, daemon in daemons.items():
        assert not registry.is_installed(engine)
        daemon.touch(mode=0o755)
        assert registry.is_installed(engine)
    daemons["lxd"].write_text("#!/bin/sh\nexec snap install lxd\n")
    assert not registry.is_installed("lxd")
