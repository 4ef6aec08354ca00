"""The simulator's variable, which stands in gpuprov once, and where gpuprov is not as its own constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from gpuprov.gpu.simulator import SIMULATOR_VARIABLE, simulator_environment

ROOT = Path(__file__).parents[3]
ROLES = ROOT / "roles"


def test_only_simulated_gpus_have_it() -> None:
    assert simulator_environment(simulated=True) == {SIMULATOR_VARIABLE: "1"}
    assert simulator_environment(simulated=False) == {}


def test_who_knows_nothing_of_gpuprov_spells_it_alike() -> None:
    assert f'os.environ["{SIMULATOR_VARIABLE}"] = "1"' in (ROOT / "smoke_kernels/cli.py").read_text()
    spelled = [path for path in (ROOT / "gpuwork").rglob("*.py") if f'"{SIMULATOR_VARIABLE}"' in path.read_text()]
    assert spelled == [ROOT / "gpuwork/where.py"]
    connection = ROOT / "ansible_collections/gpuprov/cluster/plugins/connection/gpuprov.py"
    assert f"E({SIMULATOR_VARIABLE}=1)" in connection.read_text()
    tasks = yaml.safe_load((ROLES / "smoke/tasks/main.yml").read_text())
    assert [list(task["environment"]) for task in tasks if "environment" in task] == [[SIMULATOR_VARIABLE]]


@pytest.mark.parametrize(
    ("variables", "simulated"),
    [
        ({}, False),
        ({"gpu_facts": {"simulated": False}}, False),
        ({"gpu_facts": {"simulated": True}}, True),
        ({"gpu_facts": {"simulated": True}, "worker_simulated": False}, False),
    ],
)
def test_workers_on_simulated_gpus_have_it(variables: dict[str, Any], simulated: bool) -> None:
    default = yaml.safe_load((ROLES / "worker/defaults/main.yml").read_text())["worker_simulated"]
    asked = jinja2.Environment(autoescape=False).from_string(default).render(variables)
    folder = jinja2.FileSystemLoader(ROLES / "worker/templates")
    template = jinja2.Environment(loader=folder, autoescape=False, trim_blocks=True).get_template("worker.env.j2")
    said = template.render({"worker_simulated": asked == "True", "worker_environment": {"TOKEN": "x"}, **variables})
    assert said.splitlines()[1:] == [*([f'{SIMULATOR_VARIABLE}="1"'] if simulated else []), 'TOKEN="x"']
