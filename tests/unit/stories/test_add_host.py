"""`host add` and `host remove`, over a stand-in for ssh whose hosts have a root of their own and a Python."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from gpuprov.core.errors import GpuprovError, HostNotReady, Unreachable, UsageError
from gpuprov.link.address import RemoteMachine
from gpuprov.link.bare_host import BareHost
from gpuprov.link.hosts_file import read_machines
from gpuprov.link.places import Places
from gpuprov.link.ssh_failure import ChangedKey
from gpuprov.shapes.base import changed
from gpuprov.stories import hosts as story
from gpuprov.stories.hosts import AddOrder, add_host, find_unfit, remove_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Recording
    from tests.fakes.ssh import FakeSsh

HOFF = RemoteMachine(name="hoff", address="192.0.2.11", user="root")
GOOD = BareHost(
    python="3.11", uid=0, system="Linux", machine=os.uname().machine, free_bytes=10**11, clock_s=1.0, skew_s=0.0
)
KEYS = [f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{letter * 43}" for letter in "AB"]
FINGERPRINTS = [
    "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(key.split()[1])).digest()).decode().rstrip("=")
    for key in KEYS
]
# A pip that puts the program that the wheel `program` holds into the environment
PIP = """\
import os, sys, zipfile
(wheel,) = [word for word in sys.argv if "program-" in word]
folder = os.path.dirname(os.path.dirname(wheel))
path = os.path.join(folder, "bin/gpuprov")
print("Installing collected packages: gpuprov")
with open(path, "wb") as file:
    file.write(zipfile.ZipFile(wheel).read("program"))
os.chmod(path, 0o755)
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "run").mkdir()
    return Places(config=tmp_path / "config/gpuprov", runtime=tmp_path / "run")


@pytest.fixture
def host(ssh: FakeSsh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world_member: Callable[..., str]) -> Path:
    """A host that is reached as root and has room; its root. The packages are made up."""
    root = ssh.reach("192.0.2.11")
    (root / "usr/local/bin").mkdir(parents=True)
    (root / "opt").mkdir()
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "pip-1-py3-none-any.whl", "w") as pip:
        pip.writestr("pip/__main__.py", PIP)
    with zipfile.ZipFile(wheels / "program-1-py3-none-any.whl", "w") as program:
        program.writestr("program", f"#!/bin/sh\n{world_member(root, 'own')}\n")
    monkeypatch.setattr(story, "pack_wheel", lambda *_: wheels / "program-1-py3-none-any.whl")
    monkeypatch.setattr(story, "ensure_wheels", lambda *_, **__: [wheels / "pip-1-py3-none-any.whl"])
    monkeypatch.setattr(story, "refuse_unfit", lambda machine, facts: refuse(machine, changed(facts, uid=0)))
    return root


refuse = story.refuse_unfit


@pytest.fixture
def add(places: Places, recording: Recording) -> Callable[..., tuple[str, ...]]:
    def add_it(**order: str) -> tuple[str, ...]:
        return add_host(AddOrder(machine=HOFF, **order), places, reporter=recording).changed

    return add_it


@pytest.mark.slow
def test_a_host_is_added_once(
    host: Path, places: Places, add: Callable[..., tuple[str, ...]], recording: Recording
) -> None:
    first = add()
    assert [line.partition(":")[0] for line in first] == [
        "installed gpuprov 0.1.0 on hoff",
        f"added hoff to {places.inventory}",
        "hoff",
    ]
    assert first[-1] == "hoff: installed lxd"
    assert read_machines(places.inventory) == {"hoff": HOFF}
    assert "node hoff Installing collected packages: gpuprov" in recording.lines
    place = host / "opt/gpuprov"
    current = place / "current"
    assert current.is_symlink()
    assert (host / "usr/local/bin/gpuprov").readlink() == current / "bin/gpuprov"
    assert sorted(entry.name for entry in place.iterdir()) == sorted(
        [".lock", "current", current.readlink().name, "made-by-gpuprov"]
    )
    before = {path: path.lstat().st_mtime_ns for path in place.rglob("*") if "__pycache__" not in path.parts}
    assert add() == ()
    assert before == {path: path.lstat().st_mtime_ns for path in place.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.slow
def test_another_version_is_replaced_and_the_one_before_that_goes(
    host: Path, add: Callable[..., tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for name in ("one", "two", "three"):
        monkeypatch.setattr(story, "own_fingerprint", lambda _files, name=name: name)
        assert any("installed gpuprov" in line for line in add())
        seen.append((host / "opt/gpuprov/current").readlink().name)
    assert [name.split("-")[1] for name in seen] == ["one", "two", "three"]
    there = {path.name for path in (host / "opt/gpuprov").iterdir()}
    assert set(seen) & there == set(seen[1:]), "who runs the one before may still import from it"


@pytest.mark.slow
def test_what_was_killed_at_any_step_is_gone_on_with(
    host: Path,
    ssh: FakeSsh,
    places: Places,
    add: Callable[..., tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The remote program kills its own process when it says a step; each run finds what the one before has left."""
    program = Path(story.__file__).parents[1] / "link/bare_program.py"
    source = program.read_text()
    for step in ("copying", "creating the environment", "installing", "Installing collected"):
        killing = source.replace(
            "    sys.stdout.flush()\n",
            f"    sys.stdout.flush()\n    if str(line.get('step', '')).startswith({step!r}): os.kill(os.getpid(), 9)\n",
            1,
        )
        assert killing != source
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_text", lambda _path, killing=killing, **_: killing)
            with pytest.raises(HostNotReady):
                add()
        assert not (host / "opt/gpuprov/current").exists(), step
        assert read_machines(places.inventory) == {}, step
    assert any("installed gpuprov" in line for line in add())
    assert add() == ()
    assert ssh.calls()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_that_fills_meanwhile_keeps_nothing_and_the_next_run_goes_on(
    host: Path, places: Places, add: Callable[..., tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roomy = partial(changed, uid=0, free_bytes=10**11)  # as it was when the host was looked at
    monkeypatch.setattr(story, "refuse_unfit", lambda machine, facts: refuse(machine, roomy(facts)))
    with zipfile.ZipFile(tmp_path / "wheels/program-1-py3-none-any.whl", "a") as program:
        program.writestr("large", bytes(10**6))
    disk = str(host / "opt")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", disk], check=True)
    try:
        with pytest.raises(GpuprovError) as caught:
            add()
        assert "No space left on device" in caught.value.evidence
        assert "df -h" in caught.value.fix
        assert read_machines(places.inventory) == {}
        assert sorted(path.name for path in (host / "opt/gpuprov").iterdir()) == [".lock", "made-by-gpuprov"]
        subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
        assert f"added hoff to {places.inventory}" in add()
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.slow
def test_what_is_not_ours_is_left_alone(host: Path, places: Places, add: Callable[..., tuple[str, ...]]) -> None:
    (host / "opt/gpuprov").mkdir()
    (host / "opt/gpuprov/foreign").write_text("x")
    with pytest.raises(HostNotReady, match="cannot be added") as caught:
        add()
    assert "gpuprov did not create it" in caught.value.evidence
    assert [path.name for path in (host / "opt/gpuprov").iterdir()] == ["foreign"]
    assert not places.inventory.exists()
    (host / "opt/gpuprov/foreign").unlink()
    (host / "usr/local/bin/gpuprov").write_text("another program")
    add()
    assert (host / "usr/local/bin/gpuprov").read_text() == "another program"


@pytest.mark.parametrize(
    ("facts", "evidence", "fix"),
    [
        (BareHost(python=""), "it has no python3; gpuprov needs Python 3.10", "apt-get install python3"),
        (BareHost(python="3.9"), "its python3 is 3.9", "apt-get install python3"),
        (changed(GOOD, uid=1000), "ssh logs in as uid 1000", "gpuprov host add hoff --address 192.0.2.11 --user root"),
        (changed(GOOD, machine="riscv64"), "its processor is riscv64", "on a machine with riscv64"),
        (changed(GOOD, free_bytes=10**8), "0.1 GiB are free", "on hoff: df -h /opt"),
        (changed(GOOD, skew_s=-300.0), "its clock is 300 s behind", "timedatectl"),
        (changed(GOOD, system="FreeBSD"), "FreeBSD", "Linux"),
        (changed(GOOD, foreign=True), "gpuprov did not create it", "ls -la /opt/gpuprov"),
    ],
)
def test_what_a_host_lacks_is_told_with_the_way_out(facts: BareHost, evidence: str, fix: str) -> None:
    ((seen, way),) = find_unfit(HOFF, facts)
    assert evidence in seen
    assert fix in way


def test_all_that_is_wrong_is_told_at_once() -> None:
    assert find_unfit(HOFF, GOOD) == []
    assert find_unfit(HOFF, changed(GOOD, free_bytes=0, installed="x")) == []
    assert len(find_unfit(HOFF, changed(GOOD, uid=7, machine="riscv64", skew_s=100.0, free_bytes=0))) == 4


@pytest.mark.slow
def test_a_host_without_python_is_told_so(
    host: Path,
    ssh: FakeSsh,
    places: Places,
    add: Callable[..., tuple[str, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    monkeypatch.setenv("PATH", f"{ssh.folder / 'bin'}:{bare}")
    (bare / "sh").symlink_to("/bin/sh")
    with pytest.raises(HostNotReady) as caught:
        add()
    assert "it has no python3" in caught.value.evidence
    (bare / "python3").write_text('#!/bin/sh\ncase $2 in *exit*) exit 1;; esac\necho \'{"python":"3.9"}\'\n')
    (bare / "python3").chmod(0o755)
    with pytest.raises(HostNotReady) as caught:
        add()
    assert "its python3 is 3.9" in caught.value.evidence
    facts = BareHost(python="../../3.11", system="Linux", machine="x", free_bytes=1, clock_s=1.0)
    for odd in (facts, changed(facts, python="3.11", clock_s=math.nan)):
        told = {key: value for key, value in structs.asdict(odd).items() if key != "skew_s"}
        (bare / "python3").write_text(
            f"#!/bin/sh\ncase $2 in *exit*) exit 0;; esac\necho '{json.dumps({'facts': told})}'\n"
        )
        with pytest.raises(HostNotReady, match="does not run what is sent to it"):
            add()
    assert not list((host / "opt").iterdir())
    assert not places.inventory.exists()


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        ("ssh: connect to host 192.0.2.11 port 22: No route to host", Unreachable),
        ("root@192.0.2.11: Permission denied (publickey).", Unreachable),
    ],
)
def test_who_does_not_let_in_is_not_remembered(
    ssh: FakeSsh, places: Places, add: Callable[..., tuple[str, ...]], says: str, kind: type[Exception]
) -> None:
    ssh.fail("192.0.2.11", says)
    with pytest.raises(kind) as caught:
        add()
    assert says in str(caught.value)
    assert not places.inventory.exists()


@pytest.mark.slow
def test_a_login_that_prints_on_stdout_is_told_so(
    host: Path, ssh: FakeSsh, add: Callable[..., tuple[str, ...]]
) -> None:
    ssh.greet("192.0.2.11", "Welcome to hoff")
    with pytest.raises(HostNotReady, match="hoff gave an unexpected answer") as caught:
        add()
    assert "Welcome to hoff" in caught.value.evidence
    assert caught.value.fix == "a login there must print nothing: ssh root@192.0.2.11 true"
    assert (host / "opt/gpuprov/current").exists()


@pytest.mark.slow
def test_a_new_key_is_accepted_and_shown_and_one_that_has_changed_is_refused(
    host: Path, ssh: FakeSsh, places: Places, add: Callable[..., tuple[str, ...]], recording: Recording
) -> None:
    ssh.fail("192.0.2.11", "root@192.0.2.11: Permission denied (publickey).")
    ssh.show_key("192.0.2.11", KEYS[0])
    with pytest.raises(Unreachable, match="does not accept"):
        add()
    assert recording.lines[-1] == f"note accepted the host key of hoff: {FINGERPRINTS[0]} (ED25519)"
    assert host.is_dir()
    ssh.reach("192.0.2.11")
    ssh.show_key("192.0.2.11", KEYS[0])
    assert [line for line in add() if line.startswith("accepted")] == []
    ssh.show_key("192.0.2.11", KEYS[1])
    before = places.known_hosts.read_bytes()
    for refused in (add, lambda: remove_host("hoff", places, forget=False, reporter=recording)):
        with pytest.raises(ChangedKey) as caught:
            refused()
        assert f"known: {FINGERPRINTS[0]}" in caught.value.evidence
        assert f"ssh-keygen -f {places.known_hosts} -R 192.0.2.11" in caught.value.fix
    assert places.known_hosts.read_bytes() == before
    remove_host("hoff", places, forget=True, reporter=recording)
    assert places.known_hosts.read_bytes() == b""
    assert sorted(path.name for path in places.config.iterdir()) == ["hosts.yml", "known_hosts"]


@pytest.mark.slow
def test_two_controllers_at_once_leave_one_gpuprov(
    host: Path, places: Places, recording: Recording, tmp_path: Path
) -> None:
    (tmp_path / "run2").mkdir()
    both = (places, Places(config=tmp_path / "config2", runtime=tmp_path / "run2"))
    with ThreadPoolExecutor(2) as pool:
        orders = [pool.submit(add_host, AddOrder(machine=HOFF), one, reporter=recording) for one in both]
        for order in orders:
            assert order.result().changed
    assert len([path for path in (host / "opt/gpuprov").iterdir() if path.name.startswith("0.1.0")]) == 1
    assert (host / "opt/gpuprov/current/bin/gpuprov").is_file()


@pytest.mark.slow
def test_a_host_is_removed_once(
    host: Path, places: Places, add: Callable[..., tuple[str, ...]], recording: Recording
) -> None:
    add()
    gone = remove_host("hoff", places, forget=False, reporter=recording)
    assert gone.changed == ("removed /opt/gpuprov of hoff", f"removed hoff from {places.inventory}")
    assert not list((host / "opt").iterdir())
    assert not list((host / "usr/local/bin").iterdir())
    assert read_machines(places.inventory) == {}
    assert remove_host("hoff", places, forget=False, reporter=recording).unchanged


@pytest.mark.slow
def test_a_host_with_nodes_or_away_is_removed_only_to_be_forgotten(
    host: Path,
    ssh: FakeSsh,
    places: Places,
    add: Callable[..., tuple[str, ...]],
    recording: Recording,
    world_member: Callable[..., str],
) -> None:
    add()
    ssh.reach("192.0.2.11", member=world_member(host, "own", nodes=2))
    with pytest.raises(UsageError, match="hoff still has nodes") as nodes:
        remove_host("hoff", places, forget=False, reporter=recording)
    assert nodes.value.evidence == "c[000-001] of lab"
    keeps, removes = nodes.value.fix.split("; if they are yours and no longer needed, ")
    assert keeps.endswith("gpuprov host remove hoff --forget"), "what harms nobody comes first"
    assert removes == "on hoff: gpuprov cluster down lab"
    ssh.fail("192.0.2.11", "ssh: connect to host 192.0.2.11 port 22: No route to host")
    with pytest.raises(Unreachable) as away:
        remove_host("hoff", places, forget=False, reporter=recording)
    assert away.value.fix.endswith("gpuprov host remove hoff --forget")
    assert "hoff" in read_machines(places.inventory)
    assert remove_host("hoff", places, forget=True, reporter=recording).changed == (
        f"removed hoff from {places.inventory}",
    )
    assert (host / "opt/gpuprov/current").exists()


@pytest.mark.slow
def test_a_controller_that_is_killed_while_it_copies_leaves_what_was_there(
    host: Path, add: Callable[..., tuple[str, ...]]
) -> None:
    """The remote program ends with its input."""
    add()
    before = (host / "opt/gpuprov/current").readlink()
    program = Path(story.__file__).parents[1] / "link/bare_program.py"
    argv = [sys.executable, "-I", str(program), str(host / "opt/gpuprov"), "install", "another"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout
        assert b"copying" in running.stdout.readline()
        assert running.stdin
        running.stdin.close()
        assert running.wait(30) != 0
    assert (host / "opt/gpuprov/current").readlink() == before
