"""What Docker's own files tell while dockerd starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.runtime.docker_files import read_files

if TYPE_CHECKING:
    from pathlib import Path


def keep(root: Path, number: str, said: object) -> None:
    folder = root / "containers" / number
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text(said if isinstance(said, str) else json.dumps(said))


def test_names_and_projects_as_docker_would_tell_them(tmp_path: Path) -> None:
    keep(tmp_path, "c1", {"Name": "/one", "Config": {"Labels": {"com.docker.compose.project": "p"}}})
    keep(tmp_path, "c2", {"Name": "/two", "Config": {"Labels": None}})
    told = read_files(tmp_path)
    assert told is not None
    assert (told.names, told.projects) == ({"c1": "one", "c2": "two"}, {"c1": "p"})
    assert (told.nodes, told.leases, told.silent) == (frozenset(), (), {})


@pytest.mark.parametrize(
    "said",
    [
        {"Name": "/node", "Config": {"Labels": {"gpuprov.cluster": "lab", "gpuprov.self": "other"}}},
        {"Name": "/x"},
        {"Name": "/x", "Config": []},
        [],
        "",
        "[" * 100_000,
    ],
)
def test_what_may_be_a_node_or_cannot_be_read_is_not_told(tmp_path: Path, said: object) -> None:
    """Labels of a node that were changed are not in these files."""
    keep(tmp_path, "c1", {"Name": "/one", "Config": {}})
    keep(tmp_path, "c2", said)
    assert read_files(tmp_path) is None
    assert read_files(tmp_path / "nowhere") is None
