"""docs/spec.md and examples/lab.yaml say what the shape says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from msgspec import structs

from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.shapes.base import Shape, changed
from gpuprov.shapes.cluster_spec import (
    ClusterSpec,
    GpuSpec,
    HostSpec,
    MountSpec,
    NodesSpec,
    OverlaySpec,
    PartitionSpec,
    PersonSpec,
    PlacementSpec,
    QosSpec,
)
from gpuprov.spec.draft import CHOOSABLE
from gpuprov.spec.gpu_order import CRITERIA
from gpuprov.spec.load import load_draft

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "lab.yaml"
ROW = re.compile(r"^\| `([a-z_.\[\]]+)` \| (.+?) \| (.+?) \| .+ \|$", re.MULTILINE)


def plain(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def expected(cls: Any, path: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for item in structs.fields(cls):
        at = f"{path}{item.name}"
        if isinstance(item.type, type) and issubclass(item.type, Shape):
            found |= expected(item.type, f"{at}.")
        elif item.required:
            found[at] = "required"
        else:
            found[at] = "`[]`" if item.default == () else f"`{plain(item.default)}`"
    return found


def documented() -> dict[str, tuple[str, str]]:
    return {key: (default, allowed) for key, default, allowed in ROW.findall((ROOT / "docs" / "spec.md").read_text())}


def test_every_key_is_documented_with_its_default() -> None:
    items = {**expected(MountSpec, "nodes.mounts[]."), **expected(HostSpec, "hosts[].")}
    items |= {**expected(PartitionSpec, "slurm.partitions[]."), **expected(QosSpec, "slurm.qos[].")}
    items |= expected(PersonSpec, "people[].")
    keys = {"version": "required", **expected(ClusterSpec), **items}
    assert {key: default for key, (default, _) in documented().items()} == keys


def test_every_choice_is_documented() -> None:
    choices = 0
    sections: dict[str, Any] = {
        "": ClusterSpec,
        "nodes": NodesSpec,
        "gpus": GpuSpec,
        "network.overlay": OverlaySpec,
        "placement": PlacementSpec,
    }
    for section, cls in sections.items():
        for name, hint in get_type_hints(cls).items():
            values = [value for value in get_args(hint) if isinstance(value, str)]
            if values:
                choices += 1
                allowed = documented()[f"{section}.{name}".lstrip(".")][1]
                assert allowed == ", ".join(f"`{value}`" for value in values)
    assert choices == 6
    assert documented()["nodes.role"][1] == ", ".join(f"`{role}`" for role in ROLE_NAMES)


def test_the_option_for_each_criterion_is_in_the_row_of_its_key() -> None:
    rows = (ROOT / "docs" / "spec.md").read_text().splitlines()
    for name, told in CRITERIA.items():
        row = next(line for line in rows if line.startswith(f"| `gpus.{name}` |"))
        assert f"`{told.option}" in row


def test_the_example_has_every_key_at_its_default(tmp_path: Path) -> None:
    own = ClusterSpec(name="example", nodes=NodesSpec(prefix="example-"))
    draft = load_draft(EXAMPLE, roles=ROLE_NAMES)
    assert draft.spec == own
    assert draft.left == CHOOSABLE - {"nodes.prefix"}
    text = re.sub(r"^( *)# (\w+: )", r"\1\2", EXAMPLE.read_text(), flags=re.MULTILINE)
    (tmp_path / "all.yaml").write_text(text)
    assert load_draft(tmp_path / "all.yaml", roles=ROLE_NAMES).spec == changed(own, share=True)
    written = yaml.safe_load(text)
    assert written.pop("version") == "gpuprov/v1"
    assert set(paths(written)) == set(expected(ClusterSpec))


def paths(written: dict[str, Any], above: str = "") -> list[str]:
    return [
        path
        for key, value in written.items()
        for path in (paths(value, f"{above}{key}.") if isinstance(value, dict) else [f"{above}{key}"])
    ]


def test_the_example_for_hosts_in_a_comment_is_right(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("hosts: []", "hosts:").replace("#   - {name", "   - {name")
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    hosts = load_draft(path, root=tmp_path, roles=ROLE_NAMES).spec.hosts
    assert hosts == (HostSpec(name="hoff", address="192.0.2.11", user="root"),)


def test_the_example_for_mounts_in_a_comment_is_right(tmp_path: Path) -> None:
    (tmp_path / "srv" / "data").mkdir(parents=True)
    text = EXAMPLE.read_text().replace("mounts: []", "mounts:").replace("#   - {source", "   - {source")
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    mounts = load_draft(path, root=tmp_path, roles=ROLE_NAMES).spec.nodes.mounts
    assert mounts == (MountSpec(source="/srv/data", target="/data", read_only=True),)


@pytest.mark.parametrize("number", [0, 1])
def test_the_addresses_in_the_examples_comments_are_right(number: int) -> None:
    from gpuprov.spec.addressing import gateway, private_address, public_address

    text = EXAMPLE.read_text()
    network = ClusterSpec().network
    assert f"example-00{number} is {public_address(number, network).ip}" in text
    assert f"example-00{number} is {private_address(number, network).ip}" in text
    assert f"the host is {gateway(network).ip}" in text
