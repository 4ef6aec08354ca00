"""The second run of every verb on a real LXD changes nothing and says so; in CI a few verbs, in long tests all.

The same on Incus, in long tests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.killing import DUMPS
from tests.e2e.places import PLACES, sweep
from tests.twice import TWICE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.killing import Dump
    from tests.e2e.places import Place

# Of all others tests/unit/cli/test_twice.py has the second run, on a fake engine; these need a real one.
IN_CI = ("image build", "play")
PLAY = """\
- hosts: "{{ play_hosts_wanted }}"
  gather_facts: false
  tasks:
    - name: A file
      ansible.builtin.copy: {content: "once\\n", dest: /etc/once, mode: "0644"}
    - name: A line
      ansible.builtin.lineinfile: {path: /etc/line, line: twice, create: true, mode: "0644"}
"""


class Case:
    """A cluster of two nodes, and the words of the table for it."""

    def __init__(self, gpuprov: Gpuprov, place: Place, folder: Path, *, engine: str) -> None:
        self.gpuprov, self.place, self.engine = gpuprov, place, engine
        (folder / "spec.yaml").write_text(place.spec(engine=engine))
        hosts = f"{place.node(0)},{place.node(1)}"
        (folder / "play.yml").write_text(PLAY.replace("{{ play_hosts_wanted }}", hosts))
        files = {"spec": str(folder / "spec.yaml"), "play": str(folder / "play.yml")}
        self.names = {"cluster": place.cluster, "p": place.mark, **files}
        gpuprov("cluster", "up", "-f", files["spec"], "--no-verify")

    def look(self) -> Dump:
        return DUMPS[self.engine](self.place.cluster, self.place.mark, self.gpuprov.folder / "data")


@pytest.fixture(scope="module", params=["lxd", pytest.param("incus", marks=pytest.mark.long)])
def case(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Case]:
    engine = str(request.param)
    if engine == "incus":
        request.getfixturevalue("incus")
        place = PLACES["twice_incus"]
    sweep(place)
    yield Case(gpuprov, place, tmp_path_factory.mktemp("twice"), engine=engine)
    sweep(place)


def is_unchanged(document: dict[str, object]) -> bool:
    play = document.get("play")
    if isinstance(play, dict):
        assert len(play["hosts"]) == 2
        return all(host["changed"] == 0 for host in play["hosts"].values())
    return document["unchanged"] is True


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(verb, marks=[] if verb in IN_CI else [pytest.mark.long])
        for verb, twice in TWICE.items()
        if "real" in twice.where
    ],
)
def test_the_second_run(case: Case, verb: str) -> None:
    gpuprov, twice = case.gpuprov, TWICE[verb].with_names(case.names)
    for argv in twice.before:
        gpuprov(*argv)
    at_first = case.look()
    first = gpuprov("--json", *twice.argv).stdout
    then = case.look()
    second = gpuprov("--json", *twice.argv).stdout
    assert then.differences(case.look()) == []
    if twice.kind == "reads":
        assert at_first.differences(then) == []
    if twice.kind == "changes":
        assert not is_unchanged(json.loads(first))
    if twice.kind in ("changes", "ensures"):
        assert is_unchanged(json.loads(second))
    for argv in twice.after:
        gpuprov(*argv)
