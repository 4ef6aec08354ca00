"""What holds where nothing is said is written once in Python; the literals that Ansible needs say the same."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from gpuprov.core.names import BRIDGES
from gpuprov.lifecycle.prepare_host import HostOrder
from gpuprov.shapes.choices import DEFAULT_BRIDGE, DEFAULT_CLUSTER
from gpuprov.shapes.cluster_spec import ImageSpec, NodesSpec

ROOT = Path(__file__).parents[2]
MODULES = "ansible_collections/gpuprov/cluster/plugins/modules"


@pytest.mark.parametrize("name", ["node", "verify"])
def test_the_modules_of_ansible_mean_the_same_cluster(name: str) -> None:
    module = import_module(f"{MODULES.replace('/', '.')}.{name}")
    assert module.ARGUMENTS["cluster"]["default"] == DEFAULT_CLUSTER
    assert yaml.safe_load(module.DOCUMENTATION)["options"]["cluster"]["default"] == DEFAULT_CLUSTER


def test_the_documented_default_of_the_module_cluster_is_the_same() -> None:
    module = import_module(f"{MODULES.replace('/', '.')}.cluster")
    text = yaml.safe_load(module.DOCUMENTATION)["options"]["name"]["description"]
    assert re.findall(r"V\((\w+)\)", text) == [DEFAULT_CLUSTER]


def test_the_module_image_builds_what_a_spec_that_says_nothing_has() -> None:
    module = import_module(f"{MODULES.replace('/', '.')}.image")
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    for option, default in (("role", NodesSpec().role), ("base", ImageSpec().base)):
        assert module.ARGUMENTS[option]["default"] == documented[option]["default"] == default


def test_the_role_that_prepares_a_host_means_the_same_bridge() -> None:
    defaults = yaml.safe_load((ROOT / "roles/host/defaults/main.yml").read_text())
    assert defaults["host_bridges"] == [f"{BRIDGES}+"]
    assert defaults["host_bridges"] == list(HostOrder(roles_path=ROOT).bridges)
    assert DEFAULT_BRIDGE.startswith(BRIDGES)
