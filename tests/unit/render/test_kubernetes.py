"""Manifests of a compose file: what each service becomes, held to Kubernetes's own schemas; what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from gpuprov.core.errors import UsageError
from gpuprov.render.kubernetes import render_manifests, write_manifests
from gpuprov.spec.compose_file import read_stack

STACK = Path(__file__).parents[3] / "examples/stack/compose.yaml"
SERVICES = "services:\n  one:\n    image: busybox\n"


def manifests(text: str, folder: Path, *, old: bool = False, **environment: str) -> list[dict[str, Any]]:
    """What a text becomes, by way of YAML."""
    path = folder / "compose.yaml"
    path.write_text(text)
    return list(yaml.safe_load_all(write_manifests(render_manifests(read_stack(path, environment), old=old))))


def by_kind(made: list[dict[str, Any]]) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for one in made:
        kinds.setdefault(one["kind"], []).append(one["metadata"]["name"])
    return kinds


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_the_example_stack_is_valid(version: str) -> None:
    made = [*render_manifests(read_stack(STACK, {}, name="gpu1"))]
    for one in made:
        kubernetes_validate.validate(one, version, strict=True)
    kinds = by_kind(made)
    copies = [f"{kind}-{number}" for kind in ("policy", "simulation") for number in range(3)]
    assert sorted(kinds.pop("Service")) == sorted(["trainer", "policy", "simulation", *copies])
    (file,) = kinds.pop("ConfigMap")
    assert kinds == {
        "Namespace": ["gpu1"], "RuntimeClass": ["gpuprov"], "Deployment": ["trainer"],
        "StatefulSet": ["policy", "simulation"],
    }  # fmt: skip
    trainer = next(one for one in made if one["kind"] == "Deployment")["spec"]["template"]["spec"]
    assert (trainer["hostname"], trainer["runtimeClassName"]) == ("trainer", "gpuprov")
    assert trainer["volumes"] == [{"name": file, "configMap": {"name": file}}]
    assert next(one for one in made if one["kind"] == "ConfigMap")["data"] == {
        "service.py": (STACK.parent / "service.py").read_text()
    }


def test_for_1_8_there_are_replication_controllers_and_no_runtime_class() -> None:
    made = [*render_manifests(read_stack(STACK, {}), old=True)]
    kinds = by_kind(made)
    assert (kinds["ReplicationController"], "RuntimeClass" in kinds) == (["trainer"], False)
    assert {one["apiVersion"] for one in made if one["kind"] == "StatefulSet"} == {"apps/v1beta2"}
    (trainer,) = (one for one in made if one["kind"] == "ReplicationController")
    assert trainer["spec"]["template"]["spec"]["nodeSelector"] == {"gpuprov.gate": "true"}


@pytest.mark.slow
def test_what_compose_says_is_what_pods_get(tmp_path: Path) -> None:
    text = SERVICES + (
        "    entrypoint: sh -c 'echo $$(ONE)'\n    environment: [A=b=c, FROM_HERE, NOT_HERE, 'D=${D:-d}']\n"
        "    ports: [53/udp, '127.0.0.1::80']\n    deploy: {mode: global}\n"
    )
    made = manifests(text, tmp_path, FROM_HERE="yes", D="")
    for one in made:
        kubernetes_validate.validate(one, "1.30", strict=True)
    (pods,) = (one for one in made if one["kind"] == "DaemonSet")
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c", "echo $$(ONE)"], "Kubernetes fills nothing in"
    variables = {one["name"]: one["value"] for one in container["env"]}
    assert variables == {"A": "b=c", "FROM_HERE": "yes", "D": "d"}
    assert [(one["containerPort"], one["protocol"]) for one in container["ports"]] == [(53, "UDP"), (80, "TCP")]
    assert "hostname" not in pods["spec"]["template"]["spec"], "many pods, many names"


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (("a-0", "a-1"), {"StatefulSet": ["a"]}),
        (("a-0",), {"Deployment": ["a-0"]}),
        (("a-1", "a-2"), {"Deployment": ["a-1", "a-2"]}),
        (("a-0", "a-1", "a"), {"Deployment": ["a-0", "a-1", "a"]}),
    ],
)
def test_copies_are_one_set(names: tuple[str, ...], kinds: dict[str, list[str]], tmp_path: Path) -> None:
    text = "services:\n" + "".join(f"  {name}: {{image: busybox, hostname: {name}}}\n" for name in names)
    made = by_kind(manifests(text, tmp_path))
    assert {kind: made.get(kind) for kind in kinds} == kinds


def test_services_that_differ_are_no_copies(tmp_path: Path) -> None:
    text = "services:\n  a-0: {image: busybox}\n  a-1: {image: alpine}\n"
    assert by_kind(manifests(text, tmp_path))["Deployment"] == ["a-0", "a-1"]


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("", "compose.yaml: describes no services"),
        ("[", "compose.yaml:1: is not YAML"),
        ("services: {A_b: {image: x}}", "'A_b' is no name there"),
        ("services: {a: {}}", "services.a.image: is missing"),
        (SERVICES + "    privileged: true\n", "compose.yaml:4: services.one.privileged: is not known"),
        (SERVICES + "    restart: 'no'\n", "services.one.restart: is 'no'"),
        (SERVICES + "    runtime: nvidia\n", "services.one.runtime: is 'nvidia' (allowed: gpuprov or null)"),
        (SERVICES + "    hostname: two\n", "services.one.hostname: is 'two'"),
        (SERVICES + "    ports: [http]\n", "services.one.ports"),
        (SERVICES + "    volumes: [/etc:/etc]\n", "'/etc:/etc' is no file that manifests can hold"),
        (SERVICES + "    volumes: ['./gone:/x']\n", "No such file or directory"),
        (SERVICES + "    command: echo ${A}\n", "compose.yaml:4: the variable A is not set"),
        (SERVICES + "    command: echo ${A:?no}\n", "compose.yaml:4: a variable cannot be read"),
        (SERVICES + "    command: echo 'a\n", "compose.yaml"),
        (SERVICES + '    command: "it\'s"\n', "services.one.command: No closing quotation"),
        (SERVICES + "    ports: [0]\n", "services.one.ports"),
        (SERVICES + "    ports: ['70000']\n", "70000 is no port"),
        (SERVICES + "    volumes: ['./../compose.yaml:/x']\n", "is no file that manifests can hold"),
        (SERVICES + "    volumes: ['./:/x']\n", "is no file"),
        ("services: {a: *b}", "is not YAML"),
        ("services: [a]", "services: is a list"),
    ],
)
def test_what_cannot_be_translated_is_told(text: str, evidence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        manifests(text, tmp_path)
    assert evidence in caught.value.evidence


def test_all_of_it_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        manifests(SERVICES + "    privileged: true\n    restart: 'no'\n", tmp_path)
    assert len(caught.value.evidence.splitlines()) == 2
    with pytest.raises(UsageError) as caught:
        manifests(SERVICES + "    hostname: two\n    volumes: [data:/data, $UNSET]\n", tmp_path)
    assert len(caught.value.evidence.splitlines()) == 4
