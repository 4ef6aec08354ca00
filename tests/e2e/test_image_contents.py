"""What users add to their nodes: Python packages, and Ansible roles of their own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

GREET = """\
- name: Greet
  ansible.builtin.copy:
    content: "Welcome to the lab on {{ ansible_facts.distribution }}\\n"
    dest: /etc/motd.lab
    mode: "0644"
"""
FAIL = """\
- name: Say goodbye
  ansible.builtin.command: ls /no/such/folder
"""
LOOK = "cat /etc/motd.lab; python3 -c 'import submitit, numpy; print(submitit.__name__, numpy.__name__)'"


PACKAGE = "numpy>=1.26"


def built(gpuprov: Gpuprov, engine: str) -> set[str]:
    """The images that have what this test adds; other tests build others meanwhile."""
    images = gpuprov.json("image", "list", "--engine", engine)["images"]
    return {image["name"] for image in images if PACKAGE in image["labels"].get("gpuprov.recipe", "")}


@pytest.fixture(params=["lxd", pytest.param("docker", marks=pytest.mark.long)])
def engine(request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place) -> Iterator[str]:
    """An engine; the cluster and the images of a test are gone after it."""
    name: str = request.param
    request.getfixturevalue({"lxd": "lxc"}.get(name, name))
    before = built(gpuprov, name)
    yield name
    gpuprov("cluster", "down", place.cluster, "--yes", "--force", "--engine", name)
    for image in built(gpuprov, name) - before:
        gpuprov("image", "rm", image, "--engine", name)


def test_packages_and_a_role_of_the_user_s_own_are_in_a_node(
    gpuprov: Gpuprov, place: Place, engine: str, tmp_path: Path
) -> None:
    role, spec = tmp_path / "roles/motd", tmp_path / "lab.yaml"
    (role / "tasks").mkdir(parents=True)
    (role / "tasks/main.yml").write_text(GREET)
    (tmp_path / "needs.txt").write_text("submitit  # hands in jobs\n")
    spec.write_text(
        place.spec(count=1, nodes="role: plain", engine=engine)
        + f"image: {{requirements: needs.txt, python: ['{PACKAGE}'], roles: [roles/motd]}}\n"
    )
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    said = gpuprov.in_node(place.node(0), "sh", "-c", LOOK)
    assert said.splitlines() == ["Welcome to the lab on Debian", "submitit numpy"]

    # What is recorded with the cluster says the same without these files.
    spec.unlink()
    (tmp_path / "needs.txt").unlink()
    images = built(gpuprov, engine)
    again = ("cluster", "up", "--name", place.cluster, "--no-verify")
    gpuprov(*again, "-n", "2")
    assert gpuprov.in_node(place.node(1), "sh", "-c", LOOK) == said
    assert built(gpuprov, engine) == images

    (role / "tasks/main.yml").write_text(FAIL)
    failed = gpuprov(*again, "-n", "3", expect=5)
    assert "the role motd of image.roles failed: task 'Say goodbye' failed" in failed.stderr
    assert f"role: {role}" in failed.stderr
    assert "/no/such/folder" in failed.stderr
    assert built(gpuprov, engine) == images
    assert [row["name"] for row in gpuprov.json("cluster", "status", place.cluster)["nodes"]] == [
        place.node(0),
        place.node(1),
    ]

    shutil.rmtree(role)
    refused = gpuprov(*again, "-n", "3", expect=2)
    assert f"image.roles[0]: '{role}' does not exist on the host" in refused.stderr.replace("\n", " ")
