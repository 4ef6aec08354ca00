"""A policy as people write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.shapes.gate_policy import GatePolicy, PolicyMount, PolicyRefusals, PolicyVariables
from gpuprov.spec.gate_policy import read_gate_policy
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "schema: gpuprov.gate-policy/v1\nversion: 1\n"


def read(tmp_path: Path, text: str) -> GatePolicy:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    return read_gate_policy(path, is_there=lambda place: place.startswith("/home"))


def test_everything_may_be_left_out(tmp_path: Path) -> None:
    assert read(tmp_path, HEAD) == GatePolicy()


def test_all_keys(tmp_path: Path) -> None:
    text = """\
touch: everything
mounts: [{source: /home, target: /home, read_only: true}]
variables:
  set: {LANG: C.UTF-8}
  force: {http_proxy: "a=b", "with.dot": "one\\ntwo"}
user: $HOUDINI_USER
remove: true
refuse:
  privileged: true
  namespaces: [pid, net, ipc, uts, user, cgroup]
  mounts_outside: [/home, /data]
  devices: true
  capabilities: true
gpus_per_project: 2
"""
    assert read(tmp_path, HEAD + text) == GatePolicy(
        touch="everything",
        mounts=(PolicyMount(source="/home", target="/home", read_only=True),),
        variables=PolicyVariables(set={"LANG": "C.UTF-8"}, force={"http_proxy": "a=b", "with.dot": "one\ntwo"}),
        user="$HOUDINI_USER",
        remove=True,
        refuse=PolicyRefusals(
            privileged=True,
            namespaces=("pid", "net", "ipc", "uts", "user", "cgroup"),
            mounts_outside=("/home", "/data"),
            devices=True,
            capabilities=True,
        ),
        gpus_per_project=2,
    )


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["schema: the file is empty"]),
        ("[", ["policy: line 1: not YAML"]),
        ("version: 1\n", ["schema: line 1: is missing"]),
        (f"{HEAD}touch: all\n", ["touch: line 3: is 'all'"]),
        (
            f"{HEAD}refuse: {{privlieged: true}}\n",
            ["refuse.privlieged: line 3: is not known; did you mean priv"],
        ),
        (f"{HEAD}refuse: {{mounts_outside: [data]}}\n", ["refuse.mounts_outside[0]: line 3: is 'data'"]),
        (f"{HEAD}user: 1000:50\n", ["user: line 3: is 60050 (use quotes"]),
        (f"{HEAD}user: root\n", ["user: line 3: is 'root'"]),
        (f"{HEAD}variables:\n  set:\n    A: 1\n", ["variables.set.A: line 5: is 1 (use quotes"]),
        (f"{HEAD}variables:\n  force:\n    A: b\n    'B.C=D': x\n", ["variables.force.B.C=D: line 6: is no variable"]),
        (f"{HEAD}variables:\n  set: {{A: b}}\n  force: {{A: b}}\n", ["variables.set.A: line 4: is forced too"]),
        (
            f"{HEAD}variables:\n  force:\n    NVIDIA_VISIBLE_DEVICES: all\n    GPUPROV_WAIT: 5m\n",
            [
                "variables.force.NVIDIA_VISIBLE_DEVICES: line 5: is about GPUs",
                "variables.force.GPUPROV_WAIT: line 6: is about GPUs",
            ],
        ),
        (
            f"{HEAD}mounts:\n- {{source: /home/../etc, target: /dev/x}}\n- {{source: /none, target: /dev/x}}\n",
            [
                "mounts[0].source: line 4: is /home/../etc",
                "mounts[0].target: line 4: is /dev/x",
                "mounts[1].target: line 5: /dev/x is there twice",
                "mounts[1].source: line 5: /none is not on this host",
            ],
        ),
        (f"{HEAD}gpus_per_project: -1\n", ["gpus_per_project: line 3: is -1"]),
    ],
)
def test_each_problem_is_told_with_its_line(tmp_path: Path, text: str, problems: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        read(tmp_path, text)
    for words in problems:
        assert words in caught.value.evidence
    assert "policy.yaml" in caught.value.fix


def test_what_is_no_file_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, words in (("absent", "No such file"), (".", "it is no file"), ("binary", "not UTF-8")):
        with pytest.raises(SpecError) as caught:
            read_gate_policy(tmp_path / name, is_there=bool)
        assert words in caught.value.evidence
    with pytest.raises(SpecError) as caught:
        read(tmp_path, HEAD + "#" * 1_000_000)
    assert "larger than" in caught.value.evidence
