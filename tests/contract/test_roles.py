"""What every role of the registry does: what it may be called, what it adds to images and nodes, what it may ask."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
import yaml

from gpuprov.assets import get_asset
from gpuprov.cli.main import main
from gpuprov.cli.verbs import VERBS
from gpuprov.cluster.files import present_member, render_hosts
from gpuprov.cluster.state import ClusterState, observe_cluster
from gpuprov.core import requirements
from gpuprov.core.catalogue import load_catalogue
from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import LABEL_ROLE, File
from gpuprov.lifecycle.files import find_stale, gather_files
from gpuprov.lifecycle.leaving import SPARE_JOBS, JobsPolicy, refuse_busy
from gpuprov.lifecycle.out_of_service import Leave
from gpuprov.provision.recipe import COMMON_ROLES
from gpuprov.provision.role_recipe import Init
from gpuprov.roles.crew import Crew
from gpuprov.roles.departure import Departure
from gpuprov.roles.registry import ROLE_NAMES, ROLES, checks_of_roles, load_draft, role_of
from gpuprov.roles.worker.facts import BROKER
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.shapes.node import CharDevice
from gpuprov.spec.shared_folder import share_mount
from gpuprov.spec.spec_error import SpecError
from gpuprov.verify.models import Expectation, Observation
from tests.contract.engines import CLUSTER, NODES, Bench
from tests.fakes.chain import CHAIN
from tests.fakes.world import make_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.drivers.base import Driver
    from gpuprov.roles.base import Role
    from gpuprov.verify.models import Rule
    from tests.conftest import Recording
    from tests.fakes.world import World

ROOT = Path(__file__).parents[2]
COLLECTION = "ansible_collections.gpuprov.cluster.plugins"
INITS = get_args(Init)
NO_ROLES = ("host", "nfs", "broker", "smoke", "base", "Slurm", "")
CONTROLLER = f"{NODES}000"
WHERE_ASKED_FOR = {"/etc/slurm/tokens.key"}  # slurm.rest
OWNED_BY_ALL = {"/etc/hosts", "/etc/environment", "/etc/resolv.conf", "/root/.ssh/authorized_keys"} | {
    "/etc/gpuprov/environment",
    "/etc/profile.d/gpuprov.sh",
    "/etc/ssh/sshd_config.d/gpuprov-environment.conf",
}
FAILED = {"exit_code": 1, "stdout": "", "stderr": "no", "timed_out": False, "seconds": 1.0}


@pytest.fixture(params=ROLES.values(), ids=lambda role: role.name)
def role(request: pytest.FixtureRequest) -> Role:
    """Each of them."""
    found: Role = request.param
    return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    """A host with the fake driver, whose nodes have a Slurm that answers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return make_world(tmp_path, monkeypatch, recording)


class Watched:
    """A driver that counts what nodes are asked and given."""

    def __init__(self, driver: Driver) -> None:
        self.touched: list[str] = []
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        if name in ("run", "push", "pull", "attach_argv", "logs"):
            self.touched.append(name)
        return getattr(self._driver, name)


def bring_up(world: World, role: Role, count: int = 3) -> ClusterState:
    world.up(spec=world.spec(nodes=NodesSpec(count=count, role=role.name), share=role.shares))
    return observe_cluster(world.driver, "lab")


def crew_of(state: ClusterState) -> Crew:
    assert state.spec is not None
    return Crew(spec=state.spec, members=tuple(present_member(node) for node in state.nodes if node.complete))


# ---- what it may be called


def test_every_list_of_roles_is_that_of_the_registry() -> None:
    serve = importlib.import_module(f"{COLLECTION}.module_utils.serve")
    assert set(serve.ROLE["choices"]) == set(ROLE_NAMES)
    for module in ("cluster", "node"):
        documented = yaml.safe_load(importlib.import_module(f"{COLLECTION}.modules.{module}").DOCUMENTATION)
        assert set(documented["options"]["role"]["choices"]) == set(ROLE_NAMES)
    row = next(line for line in (ROOT / "docs/spec.md").read_text().splitlines() if line.startswith("| `nodes.role` |"))
    assert set(re.findall(r"`(\w+)`", row.split("|")[3])) == set(ROLE_NAMES)
    assert {role for role in requirements.load_requirements() if role != "smoke"} == set(ROLE_NAMES)


def test_its_name_is_a_role_that_specs_allow_and_people_have_a_word_for_it(role: Role, tmp_path: Path) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*", role.name)
    assert role.title
    assert role_of(role.name) is role
    path = tmp_path / "lab.yaml"
    path.write_text(f"version: gpuprov/v1\nnodes: {{role: {role.name}}}\n")
    assert load_draft(path).spec.nodes.role == role.name


@pytest.mark.parametrize("role", NO_ROLES)
def test_another_role_is_refused_with_the_list_of_roles(role: str, tmp_path: Path, world: World) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(f"version: gpuprov/v1\nnodes: {{role: '{role}'}}\n")
    with pytest.raises(SpecError) as wrong:
        load_draft(path)
    assert "nodes.role" in str(wrong.value)
    assert ", ".join(ROLE_NAMES) in str(wrong.value)
    with pytest.raises(UsageError) as unknown:
        role_of(role)
    assert ", ".join(ROLE_NAMES) in unknown.value.evidence
    with pytest.raises(GpuprovError, match=", ".join(ROLE_NAMES)):
        world.create("c000", role=role or "none")
    assert world.names == []


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize("role", NO_ROLES)
@pytest.mark.parametrize("verb", [["create-node", "c000"], ["cluster", "plan"], ["cluster", "up"]], ids=" ".join)
def test_the_command_line_refuses_another_role(
    verb: list[str], role: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verb[0] in {name.partition(" ")[0] for name in VERBS}
    assert main([*verb, "--role", role], host=world.host) == 2
    said = capsys.readouterr().err
    assert "--role" in said
    assert all(f"'{known}'" in said for known in ROLE_NAMES)


# ---- what it adds to an image


def test_its_roles_exist_and_know_their_variables(role: Role) -> None:
    folder = get_asset("roles")
    assert not set(role.recipe.roles) & set(COMMON_ROLES)
    for name in role.recipe.roles:
        assert (folder / name / "tasks" / "main.yml").is_file()
    for init in INITS:
        for name, variables in role.recipe.variables(init).items():
            assert name in role.recipe.roles
            specs = yaml.safe_load((folder / name / "meta" / "argument_specs.yml").read_text())["argument_specs"]
            options = specs["main"]["options"]
            assert set(variables) <= set(options)
            for variable, value in variables.items():
                assert value in options[variable].get("choices", [value])


def test_shells_can_read_its_lines(bench: Bench, node: str, role: Role) -> None:
    told = role.diagnostics()
    lines = [*told.node.values(), told.cluster, *role.recipe.labels.values(), *map(role.forget, INITS)]
    for line in lines:
        result = bench.driver.run(node, ["sh", "-n"], stdin=line.encode())
        assert (result.exit_code, result.stderr) == (0, ""), line
    assert bench.driver.run(node, ["sh", "-n"], stdin=b"if").exit_code, "what is wrong is heard"


# ---- its files


def test_its_files_are_pure(role: Role, world: World) -> None:
    state = bring_up(world, role)
    crew = crew_of(state)
    first, second = (
        role.gather_files(world.driver, crew, state, None, partial(role.read_secret, world.driver, state))
        for _ in range(2)
    )
    for member in crew.members:
        files = first(member)
        assert files == first(member) == second(member)
        paths = [file.path for file in files]
        assert all(path == str(Path(path)) and Path(path).is_absolute() and ".." not in path for path in paths)
        assert len(set(paths)) == len(paths)
        assert not set(paths) & OWNED_BY_ALL
        assert set(role.marks) <= set(paths)
        assert all(role.marks.values())


def test_no_two_roles_write_the_same_path_otherwise(world: World) -> None:
    written: dict[str, set[File]] = {}
    for role in ROLES.values():
        world.empty()
        state = bring_up(world, role, 1)
        crew = crew_of(state)
        mine = {
            file.path: file
            for file in role.gather_files(
                world.driver, crew, state, None, partial(role.read_secret, world.driver, state)
            )(crew.members[0])
        }
        for path, file in mine.items():
            written.setdefault(path, set()).add(file)
    assert {path: files for path, files in written.items() if len(files) > 1} == {}
    marks = Counter(path for role in ROLES.values() for path in role.marks)
    assert not [path for path, count in marks.items() if count > 1]


def test_what_it_applies_is_not_stale_and_its_secrets_are_its_files(role: Role, world: World) -> None:
    state = bring_up(world, role)
    files = gather_files(world.driver, crew_of(state), state, {})
    assert find_stale(world.driver, world.names, files.of) == {}
    secrets = {file.path for file in role.secret_files} - WHERE_ASKED_FOR
    assert secrets <= {file.path for name in world.names for file in files.of(name)}
    for name in world.names:
        own = {file.path for file in files.of(name)} - OWNED_BY_ALL
        for path in own:
            world.engine.nodes[name].files[path] = replace(world.engine.nodes[name].files[path], content=b"other")
        stale = find_stale(world.driver, [name], files.of)
        assert set(stale) == ({name} if own else set())
        role.apply(world.driver, files.crew, stale, files.of)
        assert find_stale(world.driver, world.names, files.of) == {}


# ---- what it says of nodes


def test_states_are_of_its_cluster_and_a_ready_node_is_ready(role: Role, world: World) -> None:
    state = bring_up(world, role)
    for name in ROLE_NAMES:
        with suppress(UsageError):  # a role may refuse a node that finds none of its kind
            world.create(f"also-{name}", role=name)
    state = observe_cluster(world.driver, "lab")
    states = role.states(world.driver, state)
    assert set(states) <= {node.name for node in state.nodes_of(role.name)}
    assert all(role.is_ready(word) for word in states.values())


def test_a_cluster_without_nodes_can_be_applied_and_has_no_states(role: Role, world: World) -> None:
    watched: Any = Watched(world.driver)
    empty = ClusterState(name="lab", recorded=None, settled=None, nodes=(), others=(), networks=())
    assert role.can_apply(empty)
    assert role.states(watched, empty) == {}
    role.wait_ready(watched, Crew(spec=ClusterSpec(), members=()), Silent())
    assert watched.touched == []


def test_next_steps_are_commands_of_ours(role: Role) -> None:
    for nodes in (["c000"], ["c000", "c001"]):
        for step in role.next_steps(ClusterSpec(share=True), nodes):
            words = step.split()
            assert words[0] == "gpuprov"
            assert words[1] in {name.partition(" ")[0] for name in VERBS}


# ---- what verify asks


def test_checks_are_unique_known_and_rest_on_earlier_ones() -> None:
    ids = [rule.id for rule in CHAIN]
    assert [check.id for check in checks_of_roles()] == [check.id for role in ROLES.values() for check in role.checks()]
    assert len(set(ids)) == len(ids)
    for check in checks_of_roles():
        assert load_catalogue()[check.id].kind == "verify"
        assert set(check.needs) <= set(ids[: ids.index(check.id)])


def expect(role: str, *, gpus: int = 1) -> Expectation:
    uuids = tuple(f"GPU-{number}" for number in range(gpus))
    devices = tuple(CharDevice(path=f"/dev/nvidia{number}", major=195, minor=number) for number in range(gpus))
    return Expectation(node="c000", status="running", role=role, gpus=uuids, devices=devices)


@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_questions_are_commands_with_a_limit(role: Role, gpus: int) -> None:
    for question in role.questions(expect(role.name, gpus=gpus), timeout_s=7.0).values():
        assert set(question) == {"argv", "timeout_s"}
        argv: Any = question["argv"]
        assert argv
        assert all(isinstance(word, str) for word in argv)
        assert question["timeout_s"] == 7.0


def test_its_checks_read_the_answers_to_its_questions_and_no_others(role: Role) -> None:
    expected = expect(role.name)
    asked = role.questions(expected, timeout_s=7.0)
    assert bool(asked) == any(check.fact for check in role.checks())
    seen = Observation(facts={role.name: dict.fromkeys(asked, FAILED)})
    for check in role.checks():
        assert check.fact in ("", role.name)
        finding = check.judge(expected, seen)
        assert finding.evidence


@pytest.mark.parametrize("check", checks_of_roles(), ids=lambda check: check.id)
def test_nodes_of_other_roles_are_not_asked(check: Rule) -> None:
    own = next(role for role in ROLES.values() if check in role.checks())
    for name in ROLE_NAMES:
        if name != own.name:
            assert check.judge(expect(name), Observation(facts={})).status == "skip"


# ---- what it does to nodes of an engine


@pytest.fixture(scope="module")
def controller(whole_bench: Bench) -> Iterator[str]:
    """A running node of whatever role a test says, the first of its cluster."""
    yield whole_bench.create(name=CONTROLLER, start=True)
    whole_bench.driver.delete_node(CONTROLLER)


def observe_as(bench: Bench, role: Role) -> ClusterState:
    """The engine's cluster, as if all its nodes were of that role."""
    seen = observe_cluster(bench.driver, CLUSTER)
    spec = ClusterSpec(name=CLUSTER, nodes=NodesSpec(prefix=NODES), share=role.shares)
    nodes = tuple(
        changed(
            node,
            labels={**node.labels, LABEL_ROLE: role.name},
            mounts=(*node.mounts, *share_mount(spec)),
            addresses={"eth1": "10.77.200.1/24", **node.addresses},
        )
        for node in seen.nodes
    )
    return replace(seen, recorded=spec, settled=spec, nodes=nodes)


@pytest.mark.usefixtures("controller")
def test_who_takes_nothing_away_is_not_refused_and_no_node_is_asked(bench: Bench, role: Role) -> None:
    watched: Any = Watched(bench.driver)
    state = observe_as(bench, role)
    assert CONTROLLER in [node.name for node in state.nodes_of(role.name)]
    role.refuse_removing(state, [])
    for policy in (SPARE_JOBS, JobsPolicy(force=True), JobsPolicy(drain_s=1.0)):
        refuse_busy(watched, [Leave(state=state, departure=Departure(nodes=()))], policy)
    assert watched.touched == []


@pytest.mark.usefixtures("controller")
def test_who_cannot_tell_of_jobs_refuses(bench: Bench, role: Role) -> None:
    """A node in which the role's services are missing."""
    leave = Leave(state=observe_as(bench, role), departure=Departure(nodes=(CONTROLLER,)))
    if role.has_services:
        with pytest.raises(UsageError, match="cannot tell whether jobs run"):
            refuse_busy(bench.driver, [leave], SPARE_JOBS)
    else:
        refuse_busy(bench.driver, [leave], SPARE_JOBS)
    refuse_busy(bench.driver, [leave], JobsPolicy(force=True))


@pytest.mark.usefixtures("controller")
def test_where_nothing_is_stale_nothing_is_touched(bench: Bench, role: Role) -> None:
    watched: Any = Watched(bench.driver)
    crew = crew_of(observe_as(bench, role))
    role.apply(watched, crew, {}, lambda _name: ())
    assert watched.touched == []


@pytest.mark.usefixtures("controller")
def test_nodes_without_the_role_s_services_have_no_state_and_no_error(bench: Bench, role: Role) -> None:
    state = observe_as(bench, role)
    assert role.can_apply(state)
    assert role.states(bench.driver, state) == {}


@pytest.mark.usefixtures("controller")
def test_the_files_of_an_engine_s_nodes_are_pure(bench: Bench, role: Role) -> None:
    state = observe_as(bench, role)
    crew = crew_of(state)
    if role.name == "worker":  # Slurm's key needs a label of the image to be written
        bench.driver.push(CONTROLLER, [File(path=BROKER, content=f"amqp://gpuwork:{'ab' * 32}@10.5.0.1/x\n".encode())])
    first, second = (gather_files(bench.driver, crew, state, {}) for _ in range(2))
    assert first.roles == (role,)
    files = first.of(CONTROLLER)
    assert files == second.of(CONTROLLER)
    assert files[0] == render_hosts(CLUSTER, crew.members)
    assert set(find_stale(bench.driver, [CONTROLLER], first.of)) == {CONTROLLER}
    if not bench.real:
        return
    bench.driver.push(CONTROLLER, files)
    assert find_stale(bench.driver, [CONTROLLER], first.of) == {}
