"""The installed command on a real LXD, and a cluster of these tests' own, which leaves a user's `lab` alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import SHARED, share_engines
from tests.e2e.groups import (
    ALONE,
    OF_ONE_CLUSTER,
    group_of,
    is_sampled,
    module_of,
    others_of,
    turn_of,
)
from tests.e2e.places import MARK, PLACES, Place, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CLUSTER = "gpte2e"
SPEC = f"""\
version: gpuprov/v1
name: {CLUSTER}
nodes: {{count: 4, prefix: e}}
gpus: {{mode: simulated}}
network: {{bridge: gpteb0, subnet: 10.78.3.0/24, private_bridge: gpteb1, private_subnet: 10.78.5.0/24}}
share: false
"""
NODES = ("e000", "e001", "e002", "e003")
ONE_CLUSTER = r"\bgpteb0\b|\bgpteb1\b|\b10\.78\.[35]\."  # its links and addresses
NOTHING = r"(?!)"
BUDGET_S = 900.0  # the first `up` of a machine may have to build the image
ANSWER_S = 120.0
FOLDER = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: runs the installed command on a real engine; needs root")
    config.addinivalue_line("markers", "alone: has the machine to itself, in a run of its own after all others")


@pytest.hookimpl(tryfirst=True)  # before any are left out by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.e2e)
            module, call = module_of(item.nodeid), getattr(item, "callspec", None)
            if call and not is_sampled(module, item.originalname, call.id):  # type: ignore[attr-defined]
                item.add_marker(pytest.mark.long)
            if module in ALONE or item.get_closest_marker("long"):
                item.add_marker(pytest.mark.alone)
    items.sort(key=lambda item: turn_of(module_of(item.nodeid)) if item.path.is_relative_to(FOLDER) else (-1, ""))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """The processes of a parallel run share what a run has alone, and begin where nothing of a killed run is left."""
    share_engines(config)
    if os.geteuid() == 0:
        sweep(*PLACES.values())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests of a group in one process; the groups in their order."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(module_of(nodeid))

    config.option.loadscopereorder = False
    return ByGroup(config, log)


@dataclass(frozen=True, kw_only=True)
class Finished:
    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        loaded = json.loads(self.stdout)
        assert isinstance(loaded, dict)
        return loaded

    @property
    def all(self) -> str:
        return (
            f"{' '.join(self.argv)}: exit code {self.exit_code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        )


@dataclass(frozen=True, kw_only=True)
class Gpuprov:
    """Runs the command as its user would: from another folder, with its own environment and pipes."""

    program: Path
    folder: Path
    environment: Mapping[str, str]

    def __call__(
        self, *argv: str, expect: int = 0, before: tuple[str, ...] = (), variables: Mapping[str, str] | None = None
    ) -> Finished:
        process = self.start(*argv, before=before, variables=variables)
        try:
            stdout, stderr = process.communicate(timeout=BUDGET_S)
        finally:
            process.kill()
            process.wait()
        finished = Finished(argv=argv, exit_code=process.returncode, stdout=stdout, stderr=stderr)
        assert finished.exit_code == expect, finished.all
        assert "Traceback" not in stdout + stderr, finished.all
        return finished

    def start(
        self, *argv: str, before: tuple[str, ...] = (), variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, str(self.program), *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**self.environment, **(variables or {})},
        )

    def json(self, *argv: str, expect: int = 0) -> dict[str, Any]:
        return self("--json", *argv, expect=expect).document

    def rows(self) -> dict[str, dict[str, Any]]:
        """The nodes of the tests' cluster by name, as `cluster status` shows them."""
        return {row["name"]: row for row in self.json("cluster", "status", CLUSTER)["nodes"]}

    def slurm_states(self) -> dict[str, str]:
        return {name: row["slurm"] for name, row in self.rows().items()}

    def in_node(self, name: str, *argv: str, expect: int = 0) -> str:
        return self("exec", name, "--", *argv, expect=expect).stdout


class World:
    """What must not change behind anybody's back: the engine's objects, and the host's links, rules and keys.

    Other groups of these tests come and go meanwhile; what is theirs is not looked at.
    """

    def __init__(self, keys: Path) -> None:
        self._keys = keys
        self._others = others_of(OF_ONE_CLUSTER)

    def look(self) -> dict[str, object]:
        return {
            "instances": {item["name"]: _stable(item) for item in self._ours("instances")},
            "networks": {item["name"]: item["config"] for item in self._ours("networks") if item["managed"]},
            "profiles": [{**item, "used_by": ()} for item in lxd("profiles?recursion=1")],
            "pools": [(item["name"], item["config"]) for item in self._ours("storage-pools")],
            "links": links_of_tests(self._others),
            "rules": rules_of_tests(self._others),
            "keys": sorted(str(path) for path in self._keys.rglob("*") if path.is_file()),
        }

    def _ours(self, kind: str) -> list[dict[str, Any]]:
        """What is of this group's clusters, and what is foreign to gpuprov."""
        found = lxd(f"{kind}?recursion=1")
        return [item for item in found if _concerns_us(item) and not self._is_theirs(item["name"], item["config"])]

    def _is_theirs(self, name: str, config: dict[str, Any]) -> bool:
        return any(place.has(name, config) or config.get(MARK) == place.cluster for place in self._others)


def links_of_tests(others: list[Place], *, besides: str = NOTHING) -> list[str]:
    """Links of the host that tests have made, but for those of others, and those in which that pattern is found."""
    found = [(link["ifname"], str(link)) for link in json.loads(output("ip", "-j", "link"))]
    return sorted(name for name, text in found if "gpte" in text and not _is_of(text, others, besides))


def rules_of_tests(others: list[Place], *command: str, besides: str = NOTHING) -> list[str]:
    """Rules of the host for links of tests; left out are the same as of links."""
    lines = output(*(command or ("nft", "--stateless", "list", "ruleset"))).splitlines()
    return [line for line in lines if ("gpte" in line or "10.78." in line) and not _is_of(line, others, besides)]


def _is_of(text: str, others: list[Place], besides: str) -> bool:
    return any(place.is_in(text) for place in others) or re.search(besides, text) is not None


def _stable(instance: dict[str, Any]) -> dict[str, object]:
    config = {key: value for key, value in instance["config"].items() if not key.startswith("volatile.")}
    return {"config": config, "devices": instance["devices"], "status": instance["status"]}


def _concerns_us(item: dict[str, Any]) -> bool:
    """Leave out what other clusters of this machine do meanwhile; what is foreign to gpuprov is looked at."""
    owner = _owner(item)
    return owner is None or owner.startswith(CLUSTER)


def _owner(item: dict[str, Any]) -> str | None:
    owner: str | None = item["config"].get("user.gpuprov.cluster")
    return owner


def output(*argv: str, timeout_s: float | None = None) -> str:
    finished = subprocess.run(
        argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout_s
    )
    assert finished.returncode == 0, f"{' '.join(argv)}: {finished.stderr or finished.stdout}"
    return finished.stdout


def lxd(path: str, *, client: str = "lxc") -> Any:
    """Ask LXD itself, or Incus by its client; where it no longer answers no test can pass, and the whole run ends."""
    try:
        return json.loads(output(client, "query", f"/1.0/{path}", timeout_s=ANSWER_S))
    except subprocess.TimeoutExpired:
        engine = {"lxc": "lxd", "incus": "incus"}[client]
        if os.environ.get("CI"):  # a machine of nobody's: where the daemon's goroutines wait is then in its log
            for listening in re.finditer(rf"/{engine}/unix\.socket .*pid=(\d+)", output("ss", "-xlpnH")):
                os.kill(int(listening[1]), signal.SIGABRT)
        pytest.exit(f"{engine} has not answered GET /1.0/{path} for {ANSWER_S:.0f} s", 1)


def _missing() -> str:
    """Why the tests cannot run here; empty if they can."""
    if os.geteuid() != 0:
        return "needs root"
    try:
        lxd("instances")
    except (OSError, AssertionError) as error:
        return f"needs a running LXD (gpuprov host prepare): {error}"
    return ""


@pytest.fixture(scope="session")
def gpuprov(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gpuprov:
    """The command that is installed with this Python, and keys in a folder of the tests' own."""
    missing = _missing()
    if missing and os.environ.get("CI"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    request.getfixturevalue("real_engines")
    program = Path(sys.executable).parent / "gpuprov"
    assert program.exists(), f"{program} is not installed: pip install -e ."
    folder = tmp_path_factory.mktemp("e2e")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GPUPROV_"))}
    if SHARED not in os.environ:  # else another run may be at its tests; each module sweeps its own place
        sweep(*PLACES.values())  # what a killed run of these tests left
    return Gpuprov(program=program, folder=folder, environment=kept | {"XDG_DATA_HOME": str(folder / "data")})


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, gpuprov: Gpuprov) -> Iterator[Place]:  # noqa: ARG001 - it is there to sweep
    """The names and networks of this module's own clusters; nothing of them outlives it, whatever fails."""
    module = request.module.__name__.rpartition("test_")[2]
    found = PLACES[module]
    sweep(found)
    yield found
    sweep(found)


@pytest.fixture(scope="module", autouse=True)
def mended(request: pytest.FixtureRequest, gpuprov: Gpuprov) -> Iterator[None]:
    """Where a test of a module has failed, the cluster that all share is put right before the next module."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        mend(gpuprov)


def mend(gpuprov: Gpuprov) -> None:
    """Take away what is not of the shared cluster's spec, and bring up what is; nothing if it was never up."""
    path = gpuprov.folder / "spec.yaml"
    nodes = [item["name"] for item in lxd("instances?recursion=1") if _owner(item) == CLUSTER]
    if nodes and path.exists():
        for name in set(nodes) - set(NODES):
            output("lxc", "delete", "--force", name)
        gpuprov("cluster", "up", "-f", str(path), "--no-verify")


@pytest.fixture(scope="session")
def world(gpuprov: Gpuprov) -> World:
    return World(gpuprov.folder / "data")


@pytest.fixture(scope="session")
def lxc(gpuprov: Gpuprov) -> Callable[..., str]:  # noqa: ARG001 - LXD is there
    """LXD's own client, for what somebody else might do."""
    return lambda *argv: output("lxc", *argv)


@pytest.fixture(scope="session")
def incus(gpuprov: Gpuprov) -> Callable[..., str]:  # noqa: ARG001 - root
    """The client of Incus, for what must hold there and what somebody else might do."""
    try:
        lxd("instances", client="incus")
    except (OSError, AssertionError) as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have a real Incus (gpuprov host prepare --engine incus): {error}")
        pytest.skip(f"needs a running Incus (gpuprov host prepare --engine incus): {error}")
    return lambda *argv: output("incus", *argv)


@pytest.fixture(scope="session")
def docker(gpuprov: Gpuprov) -> Any:  # noqa: ARG001 - root
    """Docker's own SDK, for what must hold there and what somebody else might do."""
    import docker  # type: ignore[import-untyped,unused-ignore]

    try:
        return docker.APIClient()
    except Exception as error:  # noqa: BLE001 - the SDK's, of many kinds
        if os.environ.get("CI"):
            pytest.fail(f"CI must have a real Docker (gpuprov host prepare --engine docker): {error}")
        pytest.skip(f"needs a running Docker (gpuprov host prepare --engine docker): {error}")


@pytest.fixture(scope="session")
def host() -> Callable[..., str]:
    """Any command of the host; it must succeed."""
    return output


@pytest.fixture(scope="session")
def spec(gpuprov: Gpuprov) -> str:
    """Path of the spec of the tests' cluster."""
    path = gpuprov.folder / "spec.yaml"
    path.write_text(SPEC)
    return str(path)


@pytest.fixture(scope="session")
def cluster(gpuprov: Gpuprov, spec: str) -> Iterator[Finished]:
    """Four nodes, for all tests; what `cluster up` said of them. Each test leaves them as it found them."""
    gpuprov("cluster", "down", CLUSTER, "--yes", "--force")  # what a killed run of these tests left
    yield gpuprov("--json", "cluster", "up", "-f", spec, "--no-verify")
    gpuprov("cluster", "down", CLUSTER, "--yes")
