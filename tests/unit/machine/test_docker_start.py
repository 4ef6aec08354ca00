"""What a command line is to the runtime, compared with what dockerd made of it (tests/unit/runtime/data)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.machine.docker_start import Known, describe_start
from gpuprov.runtime.judge import Surroundings, judge
from gpuprov.runtime.request import read_request, read_variables
from gpuprov.runtime.rules import Refusals
from gpuprov.spec.docker_run import parse_docker_run

if TYPE_CHECKING:
    from gpuprov.machine.docker_start import Start

DATA = Path(__file__).parents[1] / "runtime/data"
KNOWN = Known(data_root="/var/lib/docker", image=("PATH=/bin", "A=image"), environment={"HERE": "x=y"})
ALL = Refusals(
    privileged=True, namespaces=("pid", "net", "ipc", "uts", "cgroup"), mounts_outside=(), devices=True,
    capabilities=True,
)  # fmt: skip
MANY = (
    "-v named:/n -v evil:/e -v /srv/vol:/v:ro -v /anon --mount type=tmpfs,target=/t --tmpfs /t2 --init "
    "--device /dev/fuse --device-cgroup-rule=c\u00a010:200\u00a0rwm --cap-add SYS_ADMIN --cap-drop MKNOD "
    "--security-opt systempaths=unconfined -u 1000:100"
)
AROUND = Surroundings(
    container="c" * 64,
    data_root="/var/lib/docker",
    mounted=frozenset({"/var/lib/docker/volumes/evil/_data"}),
    host_namespaces=frozenset({"/run/docker/netns/default"}),
)


def start(line: str, known: Known = KNOWN) -> Start:
    return describe_start(parse_docker_run(["docker", "run", *line.split(), "image"]), known)


def refused(spec: dict[str, Any]) -> dict[str, str]:
    return {step.rule: step.what for step in judge(spec, ALL, AROUND)}


@pytest.mark.parametrize(
    ("line", "recorded"),
    [
        ("", "plain"),
        ("--network none --privileged", "privileged"),
        ("--network host --pid host --ipc host --uts host --cgroupns host", "host_namespaces"),
        (
            MANY,
            "mounts_and_devices",
        ),
    ],
)
def test_the_same_is_refused_of_a_command_line_as_of_what_docker_makes_of_it(line: str, recorded: str) -> None:
    words = [word.replace("\u00a0", " ") for word in line.split(" ") if word]
    told = describe_start(parse_docker_run(["docker", "run", *words, "image"]), KNOWN).spec
    real = json.loads((DATA / f"{recorded}.json").read_text())
    here, there = refused(told), refused(real)
    assert here.keys() == there.keys()
    same = {rule for rule in here if rule not in ("refuse.devices", "refuse.capabilities") or recorded != "privileged"}
    assert {rule: here[rule] for rule in same} == {rule: there[rule] for rule in same}


def test_variables_come_from_the_image_then_files_then_options(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("# A=no\n\nA=file\nB=file\nHERE\nNOWHERE\n")
    known = Known(image=KNOWN.image, environment=KNOWN.environment, folder=tmp_path)
    told = start("--env-file file -e B=option -e C=a=b -e NOWHERE", known)
    expected = {"PATH": "/bin", "A": "file", "B": "option", "HERE": "x=y", "C": "a=b"}
    assert read_variables(told.spec) == expected
    with pytest.raises(UsageError, match="cannot be read"):
        start("--env-file absent", known)


@pytest.mark.parametrize(
    ("text", "per_node"),
    [
        ("2", "2"), ("all", "all"), ("device=0,1", "2"), ('"device=0,1"', "2"), ("device=1", "gpu1"),
        ("device=GPU-1", "GPU-1"), ("count=3", "3"), ("-1", "all"), ("driver=nvidia,count=2", "2"),
    ],
)  # fmt: skip
def test_gpus_are_asked_for_as_dockerd_would_tell_it(text: str, per_node: str) -> None:
    asked = read_request(start(f"--gpus {text}").spec, named=False)
    assert asked is not None
    assert asked.per_node == per_node


def test_mounts_in_all_their_forms() -> None:
    line = (
        "-v ./a:/a -v name:/b --mount type=bind,src=/c,dst=/c,readonly --mount source=vol,target=/d "
        "--mount type=volume,target=/e,volume-opt=type=none,volume-opt=device=/etc --mount type=volume,target=/f "
        "--use-api-socket --volumes-from other --network container:x"
    )
    told = start(line, Known(data_root="/d", folder=Path("/home/me")))
    assert [one["source"] for one in told.spec["mounts"]] == [
        "/home/me/a", "/d/volumes/name/_data", "/c", "/d/volumes/vol/_data", "/etc", "/var/run/docker.sock",
    ]  # fmt: skip
    assert told.volumes == ("name", "vol")
    assert len(told.left) == 2
    assert start("--label com.docker.compose.project=one").project == "one"


@pytest.mark.parametrize("line", ["--gpus x", "--gpus 1e9", "--mount type=cluster,target=/x", "--device-cgroup-rule x"])
def test_what_docker_would_not_take_is_refused(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        start(line)
    assert caught.value.fix


def test_hostile_words_end_in_words() -> None:
    assert len(start(" ".join(f"-e V{number}=x" for number in range(10_000))).spec["process"]["env"]) == 10_002
    for word in ('--mount="', "--mount=,,=", "--volume=:", "--volume=::", "--device=", "--label==", "--annotation=x"):
        start(word)
