"""The role slurm and gpuprov read one data file: neither spells a fact of it, and both come to the same values."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpuprov.core.units import MIB
from gpuprov.roles.slurm.checks import usable_states
from gpuprov.roles.slurm.facts import ready_states, slurm_facts, slurm_path
from gpuprov.roles.slurm.files import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

ROLE = Path(__file__).parents[3] / "roles" / "slurm"
TASKS = [path for folder in ("tasks", "handlers", "vars", "defaults") for path in (ROLE / folder).glob("*.yml")]
SERVICES = [path for path in (ROLE / "files").rglob("*") if path.is_file()]
PATHS = ("folder", "controller_mark", "applied_mark", "munge_key", "slurmdbd", "arrival")
MEMORY_MIB = 32011
SLURMD = [f"NodeName=bare0 CPUs=8 Boards=1 RealMemory={MEMORY_MIB}", f"{'0' * 64}  {slurm_path('munge_key')}"]
RENDERED = {
    "ready": "{{ slurm_ready }}",
    "configuration": "{{ slurm_configuration_files }}",
    "applied": "{{ slurm_applied_file }}",
    "key": "{{ slurm_key_file }}",
    "folders": "{{ slurm_folders | map(attribute='path') | list }}",
    "memory_mib": "{{ slurm_node.memory_mib }}",
    "look": "{{ look }}",
    "numbers": "{{ slurm_rendered | last }}",
}


def load(path: str) -> Any:
    return yaml.safe_load((ROLE / path).read_text())


def spelled() -> Iterator[str]:
    """The facts as somebody might write them by hand."""
    facts = slurm_facts()
    yield from (re.escape(facts[name]) + r"\b" for name in PATHS)
    yield from (rf"\b{state}\b" for state in facts["ready_states"])
    yield re.escape(str(facts["memory_share"]))


@pytest.mark.parametrize("path", TASKS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_role_spells_no_fact(path: Path) -> None:
    code = re.sub(r"^\s*#.*$", "", path.read_text(), flags=re.MULTILINE)
    assert [fact for fact in spelled() if re.search(fact, code)] == []


def test_the_states_that_scontrol_writes_come_from_the_same_list() -> None:
    assert usable_states() == {"IDLE", "MIXED", "ALLOCATED"}


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_service_file_names_paths_of_the_facts_alone(path: Path) -> None:
    known = {slurm_path(name) for name in PATHS} | {f"{slurm_path('folder')}/slurm.conf"}
    assert set(re.findall(r"/etc/(?:slurm|munge)/[\w./-]*\w", path.read_text())) <= known


@pytest.mark.slow
def test_the_role_comes_to_the_values_of_gpuprov(tmp_path: Path) -> None:
    several = {"slurm_gpu_types": ["h100", "a100", "h100"], "slurm_gpu_uuids": ["GPU-a", "GPU-b", "GPU-c"]}
    say = [
        {
            "name": "Say",
            "ansible.builtin.copy": {"content": "{{ said | to_json }}", "dest": str(tmp_path / name)},
            "vars": given,
        }
        for name, given in (("alike", {}), ("said", several))
    ]
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars_files": [str(ROLE / "defaults/main.yml"), str(ROLE / "vars/main.yml")],
        "vars": {"look": load("tasks/look.yml")[0]["ansible.builtin.shell"]["cmd"], "said": RENDERED},
        "tasks": [load("tasks/main.yml")[0], load("tasks/cluster.yml")[0], *say],
    }
    given = {
        "role_path": str(ROLE),
        "slurm_controller": "localhost",
        "slurm_address": "192.0.2.1",
        "slurm_there": {"stdout_lines": SLURMD},
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            *("-i", "localhost,", "-e", json.dumps(given)),
            tmp_path / "play.yml",
        ],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads((tmp_path / "said").read_text())
    folder = slurm_path("folder")
    assert set(said["ready"]) == ready_states()
    files = (
        f"{folder}/gres.conf",
        f"{folder}/slurm.conf",
        *map(slurm_path, ("gpu_units", "controller_mark", "epilog", "task_prolog")),
    )
    assert json.loads((tmp_path / "alike").read_text())["numbers"] == ""
    assert said["numbers"] == "0 GPU-a\n1 GPU-c\n2 GPU-b\n"
    assert said["configuration"] == list(files)
    assert (said["applied"], said["key"]) == (slurm_path("applied_mark"), slurm_path("munge_key"))
    assert folder in said["folders"]
    assert int(said["memory_mib"]) == Machine(cpus=8, memory_bytes=MEMORY_MIB * MIB).memory_mib
    looked = next(line for line in said["look"].splitlines() if 'set -- "$@"' in line)
    assert looked.split()[3:5] == [slurm_path("munge_key"), f"{folder}/gres.conf"]
    assert subprocess.run(["sh", "-n"], input=said["look"], text=True, check=False).returncode == 0
