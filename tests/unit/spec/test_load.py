from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, MountSpec, NodesSpec
from gpuprov.spec.load import load_draft, read_draft
from gpuprov.spec.spec_error import SpecError, in_spec

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "bad_specs.json").read_text())


def refused(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        read_draft(text, name="lab.yaml", roles=ROLE_NAMES)
    return caught.value


def test_the_shortest_spec_is_the_default_cluster() -> None:
    assert read_draft("version: gpuprov/v1\n", name="lab.yaml", roles=ROLE_NAMES).spec == ClusterSpec()


def test_what_is_given_is_read(tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    text = """
version: gpuprov/v1
nodes:
  count: 2
  role: plain
  memory_gib: 8
  privileged: true
  mounts:
    - {source: /srv, target: /data}
gpus: {per_node: 0, sharing: exclusive, mode: simulated}
image: {packages: [vim, htop]}
"""
    spec = read_draft(text, name="lab.yaml", root=tmp_path, roles=ROLE_NAMES).spec
    mounts = (MountSpec(source="/srv", target="/data", read_only=False),)
    assert spec.nodes == NodesSpec(count=2, role="plain", memory_gib=8, privileged=True, mounts=mounts)
    assert spec.gpus == GpuSpec(per_node=0, sharing="exclusive", mode="simulated")
    assert spec.image.packages == ("vim", "htop")


def test_an_anchor_may_be_used_again() -> None:
    text = "version: gpuprov/v1\nimage: {packages: &few [vim]}\n"
    assert read_draft(text, name="lab.yaml", roles=ROLE_NAMES).spec.image.packages == ("vim",)
    text = "version: gpuprov/v1\nname: &it lab\nnodes: {prefix: *it}\n"
    assert read_draft(text, name="lab.yaml", roles=ROLE_NAMES).spec.nodes.prefix == "lab"


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_what_cannot_be_is_refused_with_its_path_and_line(case: dict[str, Any]) -> None:
    error = refused(case["text"])
    assert [in_spec(problem) for problem in error.problems] == case["problems"]
    assert error.exit_code == 2
    assert error.fix


def test_every_problem_is_reported_at_once() -> None:
    error = refused((DATA / "many_problems.yaml").read_text())
    expected = (DATA / "many_problems.txt").read_text().splitlines()
    assert [in_spec(problem) for problem in error.problems] == expected
    assert str(len(expected)) in error.what


def test_a_rule_is_not_asked_about_a_value_that_could_not_be_read() -> None:
    error = refused("version: gpuprov/v1\nnodes: {count: ten}\nslurm: {controller: 9}\n")
    assert [problem.where for problem in error.problems] == ["nodes.count"]


def test_deep_nesting_is_refused_without_a_traceback() -> None:
    assert "not YAML" in str(refused("[" * 1_000))


def test_an_expansion_bomb_is_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    assert len(refused("version: gpuprov/v1\n" + "\n".join(lines)).problems) == 40


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("version: gpuprov/v1\nname: mine\n")
    assert load_draft(path, roles=ROLE_NAMES).spec.name == "mine"


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"], ids=["absent", "not text"])
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "lab.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SpecError, match=str(path)):
        load_draft(path, roles=ROLE_NAMES)


def test_a_folder_is_no_spec(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Is a directory"):
        load_draft(tmp_path, roles=ROLE_NAMES)
