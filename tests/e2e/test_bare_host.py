"""`host prepare` and `host undo`, each twice, on a machine whose engine has nothing yet: a namespace of this one.

There the folders of LXD and Incus are empty, and so are the links; packages and the kernel are this machine's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.drivers.registry import REGISTRY
from gpuprov.machine.installed_packages import find_installed
from tests.e2e.killing import Blow
from tests.e2e.lives import counted

if TYPE_CHECKING:
    from gpuprov.shapes.choices import Engine
    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov

ROOT = Path(__file__).parents[2]
ENTER = """
set -eu
mount --make-rprivate /
bind() {
    mkdir -p "/$2" "$1/$2"
    mount --bind "$1/$2" "/$2"
}
for place in var/lib/lxd var/log/lxd var/lib/incus var/log/incus var/lib/gpuprov run/incus run/gpuprov etc/sysctl.d; do
    bind "$1" "$place"
done
for place in etc/apt/sources.list.d etc/apt/preferences.d; do
    mkdir -p "$1/$place" && cp -a "/$place/." "$1/$place/"
    bind "$1" "$place"
done
ip link set lo up
shift
exec "$@"
"""
# a pool of another name: mkfs takes the file of that name for the one that this machine has mounted
ACT = """
import json, sys
from gpuprov.assets import get_asset
from gpuprov.core.reporter import Silent
from gpuprov.machine.local import LocalHost
from gpuprov.lifecycle.prepare_host import HostOrder, prepare_host, undo_host

class Notes(Silent):
    def note(self, text):
        notes.append(text)

notes = []
variables = (("host_pool_name", "bare"),)
request = HostOrder(roles_path=get_asset("roles"), engine=sys.argv[1], variables=variables)
acts = (prepare_host, prepare_host, undo_host, undo_host)
changed = [act(request, LocalHost(), reporter=Notes()).changed for act in acts]
json.dump({"changed": changed, "said": notes}, sys.stdout)
"""
OTHER_POOL = """
import json, subprocess, sys
from dataclasses import replace
from gpuprov.assets import get_asset
from gpuprov.core.reporter import Silent
from gpuprov.machine.local import LocalHost
from gpuprov.lifecycle.prepare_host import HostOrder, prepare_host, undo_host

class Notes(Silent):
    def note(self, text):
        notes.append(text)

def act(story, request):
    return story(request, LocalHost(), reporter=Notes()).changed

notes = []
request = HostOrder(roles_path=get_asset("roles"), variables=(("host_pool_name", "bare"),))
act(prepare_host, request)
for argv in (("delete", "bare"), ("create", "slow", "dir")):
    subprocess.run(["lxc", "storage", *argv], check=True, capture_output=True)
notes.clear()
kept, said = act(prepare_host, request), list(notes)
made = act(prepare_host, replace(request, pool_size_gib=5))
size = subprocess.check_output(["lxc", "storage", "get", "bare", "size"], text=True).strip()
undone = act(undo_host, request)
json.dump({"kept": kept, "said": said, "made": made, "size": size, "undone": undone}, sys.stdout)
"""
KILL = """
import json, os, signal, subprocess, sys, threading, time
from pathlib import Path
from gpuprov.assets import get_asset
from gpuprov.core.errors import PlaybookError
from gpuprov.core.reporter import Silent
from gpuprov.machine.local import LocalHost
from gpuprov.lifecycle.prepare_host import HostOrder, prepare_host, undo_host
request = HostOrder(roles_path=get_asset("roles"), pool_size_gib=5, variables=(("host_pool_name", "bare"),))

def kill():
    while not Path("/var/lib/lxd/disks/bare.img").exists():
        time.sleep(0.001)
    os.kill(int(Path("/run/gpuprov/lxd.pid").read_text()), signal.SIGKILL)

def pools():
    listed = subprocess.check_output(["lxc", "query", "/1.0/storage-pools?recursion=1"])
    return [(pool["name"], pool["status"], "source" in pool["config"]) for pool in json.loads(listed)]

threading.Thread(target=kill, daemon=True).start()
try:
    failed = prepare_host(request, LocalHost(), reporter=Silent()).changed
except PlaybookError:
    failed = None
changed = [prepare_host(request, LocalHost(), reporter=Silent()).changed for _ in range(2)]
found = pools()
undone = undo_host(request, LocalHost(), reporter=Silent()).changed
json.dump({"failed": failed is None, "changed": changed, "pools": found, "undone": undone}, sys.stdout)
"""
LEFT_OVER = """
import json, subprocess, sys
from pathlib import Path
from gpuprov.assets import get_asset
from gpuprov.core.errors import HostNotReady
from gpuprov.core.reporter import Silent
from gpuprov.machine.local import LocalHost
from gpuprov.lifecycle.prepare_host import HostOrder, prepare_host, undo_host
request = HostOrder(roles_path=get_asset("roles"), engine=sys.argv[1], variables=(("host_pool_name", "bare"),))
left = Path(f"/var/lib/{sys.argv[1]}/storage-pools/bare")
left.mkdir(parents=True)
(left / "somebody's").write_text("data")
subprocess.run(["mount", "--bind", left, left], check=True)
try:
    error = ["no error", str(prepare_host(request, LocalHost(), reporter=Silent()).changed)]
except HostNotReady as caught:
    error = [caught.what, caught.evidence]
    subprocess.run(caught.fix, shell=True, check=True)
made = prepare_host(request, LocalHost(), reporter=Silent()).changed
kept = (left.parent / "bare.old" / "somebody's").read_text()
undone = undo_host(request, LocalHost(), reporter=Silent()).changed
json.dump({"error": error, "made": made, "kept": kept, "undone": undone}, sys.stdout)
"""


def run_bare(folder: Path, program: str, *arguments: str) -> Any:
    """What a program says as JSON that runs where LXD and Incus have nothing yet."""
    inside = [sys.executable, "-c", program, *arguments]
    argv = ["unshare", "--mount", "--net", "sh", "-c", ENTER, "sh", str(folder), *inside]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_the_engine_is_killed_while_it_makes_its_pool(
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and LXD is installed
    ledger: Ledger,
    tmp_path: Path,
) -> None:
    with counted(ledger, "host prepare", Blow(how="engine", step="host: Create the pool")):
        found = run_bare(tmp_path, KILL)
        assert found["failed"], "it came too late"
        assert found["pools"] == [["bare", "Created", True]]
        assert "Create the pool" in found["changed"][0]
        assert found["changed"][1] == []
        assert "Remove the pool created by prepare" in found["undone"]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["lxd", "incus"])
def test_prepare_and_undo_twice(
    request: pytest.FixtureRequest,
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and LXD is installed
    tmp_path: Path,
    engine: Engine,
) -> None:
    if engine == "incus":
        request.getfixturevalue("incus")
    first, *others = REGISTRY[engine].packages
    record = tmp_path / "var/lib/gpuprov/packages.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({first: False}))  # as if `prepare` had installed it, and found the others
    found = run_bare(tmp_path, ACT, engine)
    prepared, again, undone, once_more = found["changed"]
    assert "Create the pool" in prepared
    (said,) = {text for text in found["said"] if text.startswith("packages are kept; ")}
    assert f"to remove them: apt-get remove {first} && apt-get autoremove; {', '.join(others)}: may have been" in said
    assert find_installed(Path("/"), REGISTRY[engine].packages) == REGISTRY[engine].packages
    assert "Stop the daemon started by prepare" in undone
    assert again == once_more == []
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix in (".pid", ".conf", ".img")]
    assert left == [], "the process id, the kernel settings and the pool's file are gone"
    assert list(tmp_path.glob(f"etc/apt/*/gpuprov-{engine}*")) == []


@pytest.mark.long
def test_a_pool_that_is_there_is_used_and_another_one_made_on_demand(
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and LXD is installed
    tmp_path: Path,
) -> None:
    found = run_bare(tmp_path, OTHER_POOL)
    assert found["kept"] == []
    assert any(text.startswith("slow (dir) is used: every node is a full copy") for text in found["said"])
    assert (found["made"], found["size"]) == (["Create the pool"], "5GiB")
    assert "Remove the pool created by prepare" in found["undone"]


@pytest.mark.long
def test_the_mounted_pool_of_an_engine_that_was_purged_is_told_and_kept(
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and LXD is installed
    tmp_path: Path,
) -> None:
    found = run_bare(tmp_path, LEFT_OVER, "lxd")
    what, evidence = found["error"]
    assert what == "requirement not met: the pool's folder is free"
    assert evidence.startswith("/var/lib/lxd/storage-pools/bare exists, but LXD has no pool bare")
    assert (found["made"], found["kept"]) == (["Create the pool"], "data")
    assert "Remove the pool created by prepare" in found["undone"]


@pytest.mark.usefixtures("cluster")
def test_undo_under_nodes_changes_nothing_each_time(gpuprov: Gpuprov) -> None:
    for _ in range(2):
        refused = gpuprov("host", "undo", expect=3).stderr
        assert "gpuprov has no nodes or images" in refused
    assert gpuprov("host", "prepare").stdout == "unchanged\n"
