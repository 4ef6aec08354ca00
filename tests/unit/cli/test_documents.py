"""Every verb is typed with --json, and what it prints is held to the schema that docs/documents.md names for it."""

from __future__ import annotations

import copy
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from gpuprov.cli.main import main
from gpuprov.cli.verbs import VERBS
from gpuprov.core.outcome import Outcome
from gpuprov.drivers.base import ExecResult
from gpuprov.link.address import RemoteMachine
from gpuprov.link.hosts_file import remember_machine
from gpuprov.link.places import ensure_places
from gpuprov.provision.events import HostStats
from gpuprov.provision.site import HostResult, SiteResult
from gpuprov.roles.work.rest import RestService
from gpuprov.shapes.gate import Gate, GateCheck, GateContainer, GateExplanation, GateStep
from gpuprov.shapes.gate_policy import GatePolicy, PolicyRefusals
from tests.fakes.jobs_in_nodes import JobsInNodes, give_jobs
from tests.fakes.programs import write_program
from tests.fakes.ssh import install_ssh
from tests.schemas import DOCS, SCHEMAS, validate
from tests.twice import TWICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.world import World
    from tests.twice import Argv
    from tests.unit.cli.conftest import Typed

pytestmark = pytest.mark.slow

PAGE = (DOCS / "documents.md").read_text()
ROW = re.compile(r"^\| `(gpuprov\.[a-z-]+/v1)` \| ([^|]*) \| \[[a-z-]+\]\(([a-z-]+)\.schema\.json\)", re.MULTILINE)
PRINTED, _, OTHERS = PAGE.partition("These documents are not printed by a verb:")
STREAMS = {"exec", "run", "run logs", "shell", "ssh"}
# Of no host, of many, for others to read (record), or read by Ansible as well (inventory).
HOSTLESS = {"completion", "manifests", "error", "explain", "hosts", "inventory", "record"}
# More than what tests/twice.py has for a verb that can be typed on the fake engine.
MODEL = str(DOCS.parent / "examples/anneal/ackley.py")
QUICK = ("--gpu-mode", "simulated", "--target", "100", "--out", "{folder}/out")
MORE: tuple[tuple[str, Argv], ...] = (
    ("cluster up", ("cluster", "up", "-n", "3")),
    ("cluster spec", ("cluster", "spec")),
    ("cluster save", ("cluster", "save", "{folder}/lab.tar")),
    ("verify", ("verify",)),
    ("verify", ("verify", "--watch", "1")),
    ("gpus", ("gpus", "--watch", "1")),
    ("smoke", ("smoke", "matmul", "c000")),
    ("submit", ("submit", "--no-project", "--", "true")),
    ("jobs", ("jobs",)),
    ("usage", ("usage",)),
    ("jobs", ("jobs", "--watch", "1")),
    ("jobs show", ("jobs", "show", "1")),
    ("jobs logs", ("jobs", "logs", "1")),
    ("jobs cancel", ("jobs", "cancel", "1")),
    ("jobs rm", ("jobs", "rm", "1", "--yes")),
    ("jobs wait", ("jobs", "wait", "1")),
    ("queue page", ("queue", "page")),
    ("rest", ("rest",)),
    ("token", ("token",)),
    ("grid run", ("grid", "run", "--local", "--first-only", "{folder}/Project")),
    *((f"grid {verb}", ("grid", verb, "{folder}/Project")) for verb in ("run", "status", "results", "pull", "cancel")),
    ("anneal check", ("anneal", "check", MODEL)),
    ("anneal run", ("anneal", "run", MODEL, "--chains", "2", "--local", *QUICK)),
    ("program check", ("program", "check", "{folder}/program")),
    ("program run", ("program", "run", "--local", "{folder}/program", "--data", "{folder}/table.csv")),
    *((f"program {verb}", ("program", verb)) for verb in ("list", "page")),
    ("program rm", ("program", "rm", "0123456")),
    ("hardware", ("hardware",)),
    ("inventory", ("inventory", "--graph")),
    ("inventory", ("inventory", "--host", "c000")),
    *((f"host {verb}", ("host", verb, "hoff")) for verb in ("add", "show", "remove")),
    ("host list", ("host", "list")),
    ("host prepare", ("host", "prepare")),
    ("host undo", ("host", "undo")),
    *((f"host mig {verb}", ("host", "mig", verb, "{folder}/mig.yaml")) for verb in ("assert", "apply")),
    *((f"gate {verb}", ("gate", verb)) for verb in ("up", "down", "status", "check")),
    ("gate explain", ("gate", "explain", "--", "docker", "run", "--gpus", "1", "image")),
    ("play", ("play", "site.yml")),
    ("example lab", ("example", "lab", "{folder}/lab")),
    ("example program", ("example", "program", "{folder}/sum")),
    ("doctor", ("doctor",)),
    ("explain", ("explain", "NVRM: Xid 79")),
    ("record", ("record",)),
    ("cdi", ("cdi", "--gpu-mode", "simulated")),
    ("bundle", ("bundle", "{folder}/bundle.tar.gz")),
)
GATE = Gate(
    host="here",
    socket="/run/docker.sock",
    config="/etc/docker/daemon.json",
    registered=True,
    default=False,
    program="/var/lib/gpuprov/runtime/docker/gpuprov-runtime",
    current=True,
    gpus_option="works",
    policy=GatePolicy(touch="everything", refuse=PolicyRefusals(privileged=True, namespaces=("pid",))),
    policy_fault="",
    containers=(GateContainer(name="train", runtime="gpuprov", status="running", gpus=("GPU-1",)),),
    checks=(GateCheck(name="engines", passed=False, evidence="lxd does not respond", fix="gpuprov doctor"),),
)
EXPLANATION = GateExplanation(
    host="here",
    runtime="gpuprov",
    registered=True,
    passes=True,
    touched=True,
    starts=False,
    steps=(GateStep(rule="refuse.devices", what="/dev/fuse", refused=True),),
    left=("which GPUs are free",),
)
CASES = (*((verb, twice.argv) for verb, twice in TWICE.items() if "fake" in twice.where), *MORE)
LAST = {
    "verify": {0, 1},
    "cluster up": {0, 1},
    "smoke": {1},
    "doctor": {0, 3},
    "gate explain": {1},
    "jobs wait": {1},
    "gate check": {3},
    "queue page": {130},
    "rest": {130},
    "program page": {130},
}  # exit codes where not 0 alone


REST = RestService(node="c000", account="work", fix="gpuprov logs c000")
PROGRAM_ROW = {
    "hash": "0123456789abcdef" * 4,
    "name": "kmeans",
    "version": "1.0",
    "registered": "2026-11-23T00:00:00Z",
    "built_for": ["sm_90"],
}
# What the program in a node says
PROGRAM_ANSWERS: dict[str, dict[str, Any]] = {
    "list": {"schema": "gpuprov.programs/v1", "programs": [PROGRAM_ROW]},
    "rm": {"schema": "gpuprov.program-removed/v1", "program": PROGRAM_ROW},
    "page": {"schema": "gpuprov.program-pages/v1", "page": {"node": "c001", "port": 40000}},
}


def documented() -> dict[str, set[str]]:
    """Verb to the ids that its row, or rows, name."""
    ids: dict[str, set[str]] = {}
    for name, verbs, _ in ROW.findall(PRINTED):
        for verb in re.findall(r"`([a-z -]+)`", re.split(r",|;| with ", verbs)[0]):
            ids.setdefault(verb, set()).add(name)
    return ids


def test_every_verb_has_a_document_or_is_known_to_print_none() -> None:
    leaves = {verb for verb, about in VERBS.items() if about.module}
    assert set(documented()) == leaves - STREAMS
    assert {verb for verb, _ in CASES} == leaves - STREAMS - {
        "jobs pull",
        "cluster restore",
    }  # test_submit.py, test_saved.py
    sentence = next(line for line in PRINTED.splitlines() if "print what their command prints" in line)
    assert set(re.findall(r"`([a-z ]+)`", sentence.partition("print")[0])) == STREAMS


def test_what_a_verb_prints_has_to_name_its_host() -> None:
    """Where a program in nodes prints the same, without a host, a key that gpuprov alone writes needs the name."""
    printed = {name: SCHEMAS[name] for name, _, _ in ROW.findall(PRINTED)}
    assert len(printed) > 30
    without = {
        name.removeprefix("gpuprov.").removesuffix("/v1")
        for name, schema in printed.items()
        if "host" not in schema["required"] and ["host"] not in schema.get("dependentRequired", {}).values()
    }
    assert without == HOSTLESS


def test_every_schema_is_one_is_listed_and_is_strict() -> None:
    rows = ROW.findall(PAGE)
    assert {name: f"gpuprov.{file}/v1" for name, _, file in rows} == {name: name for name in SCHEMAS}
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["title"] == schema["properties"]["schema"]["const"] == name
        assert schema["additionalProperties"] is False
        assert [where for where in objects_of(schema) if "additionalProperties" not in where] == []


def objects_of(schema: Any) -> Iterator[dict[str, Any]]:
    """The parts that describe an object by its keys; conditions only say more of one that is described elsewhere."""
    parts = schema if isinstance(schema, list) else []
    if isinstance(schema, dict):
        parts = [part for key, part in schema.items() if key not in ("if", "then", "else", "allOf", "contains")]
    for part in parts:
        yield from objects_of(part)
    if isinstance(schema, dict) and "properties" in schema and "type" in schema:
        yield schema


@pytest.fixture
def cluster(typed: Typed, tmp_path: Path) -> dict[str, str]:
    """Two nodes, and what stands for names in the cases."""
    spec = tmp_path / "spec.yaml"
    spec.write_text("version: gpuprov/v1\nname: lab\nnodes: {count: 2}\ngpus: {mode: simulated}\n")
    typed.world.begin_with(2)
    (tmp_path / "Project").mkdir()
    (tmp_path / "Project/params.py").write_text("param2requests = {}\nparam2default = {'x': 1}\n")
    (tmp_path / "Project/job.py").write_text("def main(param2val): return {'loss': 1.0}\n")
    write_program(tmp_path / "program")
    (tmp_path / "table.csv").write_text("1,2\n")
    (tmp_path / "mig.yaml").write_text("version: v1\nmig-configs: {off: [{devices: all, mig-enabled: false}]}\n")
    return {"cluster": "lab", "p": "c", "spec": str(spec), "play": "", "folder": str(tmp_path)}


def press_ctrl_c(_relay: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """What needs root or Ansible is made up; a watch has three rounds, and other GPUs in the third."""
    for name in ("prepare_host", "undo_host"):
        outcome = Outcome(changed=("installed lxd",))
        monkeypatch.setattr(f"gpuprov.lifecycle.prepare_host.{name}", lambda *_, outcome=outcome, **__: outcome)
    outcome = Outcome(changed=("installed gpuprov",))
    monkeypatch.setattr("gpuprov.stories.hosts.add_host", lambda *_, **__: outcome)
    for name in ("gate_up", "gate_down"):
        monkeypatch.setattr(f"gpuprov.stories.gate.{name}", lambda *_, **__: Outcome(changed=("registered it",)))
    for name in ("look_at_gate", "check_gate"):
        monkeypatch.setattr(f"gpuprov.stories.gate.{name}", lambda *_, **__: GATE)
    monkeypatch.setattr("gpuprov.stories.gate_explain.explain_start", lambda *_, **__: EXPLANATION)
    stats = HostStats(host="c000", ok=1, changed=0, failed=0, unreachable=0, skipped=0)
    result = SiteResult(hosts=(HostResult(stats=stats),), changes=())
    monkeypatch.setattr("gpuprov.stories.run_playbook.run_playbook", lambda *_, **__: result)
    monkeypatch.setattr("gpuprov.stories.rest._find", lambda *_, **__: REST)
    monkeypatch.setattr("gpuprov.core.relay.Relay.__init__", lambda *_, **__: None)
    monkeypatch.setattr("gpuprov.core.relay.Relay.serve", press_ctrl_c)
    monkeypatch.setattr("gpuprov.core.relay.Relay.close", lambda _relay: None)

    def rounds(_interval_s: float, _clock: object) -> Iterator[None]:
        world = request.getfixturevalue("world")
        yield
        yield
        world.gpus = replace(world.gpus, driver_version="590.1")
        del world.engine.nodes["c001"]
        if isinstance(world.engine.answer, JobsInNodes):
            world.engine.answer.lose("1")
        yield

    monkeypatch.setattr("gpuprov.core.rounds.every", rounds)


@pytest.fixture
def controller(
    typed: Typed, cluster: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: ForkedPrograms
) -> Iterator[Callable[[], JobsInNodes]]:
    """Has the cluster take jobs, with a Slurm that starts none."""
    assert cluster
    made = []

    def make() -> JobsInNodes:
        (tmp_path / "jobs").mkdir()
        made.append(give_jobs(typed.world, tmp_path / "jobs", monkeypatch, programs))
        made[0].share()
        made[0].slurm.hold()
        return made[0]

    yield make
    for jobs in made:
        jobs.finish()


@pytest.fixture
def have_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world_member: Callable[..., str]
) -> Callable[..., None]:
    """Has ssh reach another machine, and the user know it."""

    def have(*, known: bool) -> None:
        ssh = install_ssh(tmp_path, monkeypatch)
        if known:
            remember_machine(ensure_places().inventory, RemoteMachine(name="hoff", address="hoff"))
            ssh.reach("hoff", member=world_member(ssh.root_of("hoff"), "own", nodes=1))

    return have


def answer_for_programs(verb: str, controller: Callable[[], JobsInNodes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the node's program say what it would of a program; `check` finds no compilers, which need seconds."""
    if verb == "check":
        monkeypatch.setenv("PATH", "")
    if verb in PROGRAM_ANSWERS:
        told = {"version": 1, **PROGRAM_ANSWERS[verb]}
        controller().say = lambda _: ExecResult(exit_code=0, stdout=json.dumps(told), stderr="")
        monkeypatch.setattr("gpuprov.stories.queue_page._require_answer", lambda *_: None)


@pytest.fixture
def printed(
    typed: Typed,
    cluster: dict[str, str],
    controller: Callable[[], JobsInNodes],
    have_a_host: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str, Argv], list[dict[str, Any]]]:
    """Types a verb with --json; returns its document, or those of a watch."""

    def type_it(verb: str, argv: Argv) -> list[dict[str, Any]]:
        for earlier in TWICE[verb].with_names(cluster).before if argv == TWICE[verb].argv else ():
            typed(earlier, capsys)
        if argv[0] == "host":
            have_a_host(known=argv[1] in ("list", "show"))
        if argv[0] == "grid":
            controller()
        if argv[:2] in (("grid", "results"), ("grid", "pull")):
            typed(("grid", "run", argv[-1].format_map(cluster)), capsys)
        if argv[0] == "program":
            answer_for_programs(argv[1], controller, monkeypatch)
        if argv[0] == "queue":
            typed(("cluster", "down", "lab", "--yes"), capsys)
            typed(("cluster", "up", "--role", "worker", "-n", "1", "--share", "--no-verify"), capsys)
        if argv[0] in ("jobs", "submit", "usage"):
            jobs = controller()
            typed(("submit", "--no-project", "--", "true"), capsys)
            if argv[:2] in (("jobs", "wait"), ("jobs", "rm")):
                jobs.lose("1")
        filled = [part.format_map(cluster) for part in argv]
        out = typed(("--json", *filled), capsys, codes=tuple(LAST.get(verb, {0})))
        lines = out.splitlines() if "--watch" in argv else [out]
        return [json.loads(line) for line in lines]

    return type_it


@pytest.mark.parametrize(("verb", "argv"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_what_a_verb_prints_is_as_its_schema_says(
    verb: str, argv: Argv, printed: Callable[[str, Argv], list[dict[str, Any]]]
) -> None:
    documents = printed(verb, argv)
    ids = [validate(document) for document in documents]
    assert set(ids) <= documented()[verb]
    if "--watch" in argv:
        assert len(ids) == 2, "the first round, and the one that differs"
    for document in documents:
        assert document["version"] == 1
        for key, value in (("surprise", 1), ("version", 2), ("schema", "gpuprov.error/v1")):
            with pytest.raises(jsonschema.ValidationError):
                validate({**copy.deepcopy(document), key: value})


@pytest.mark.parametrize(
    "verb", ["list", "cluster status", "cluster up", "gpus", "doctor", "show", "image list", "stop"]
)
def test_documents_about_nodes_and_gpus_name_their_host(
    verb: str, printed: Callable[[str, Argv], list[dict[str, Any]]]
) -> None:
    (document,) = printed(verb, TWICE[verb].argv)
    assert document["host"] == "here"
    if verb == "gpus":
        holders = [holder for gpu in document["gpus"] for holder in gpu["holders"]]
        assert {holder["host"] for holder in holders} == {"here"}
    if verb in ("list", "cluster status", "cluster up"):
        assert {row["host"] for row in document["nodes"]} == {"here"}


def test_every_json_part_of_a_bundle_is_as_its_schema_says(
    world: World, printed: Callable[[str, Argv], list[dict[str, Any]]]
) -> None:
    world.host.root = Path("/")
    (document,) = printed("bundle", ("bundle", "{folder}/b.tar.gz", "--engine", "lxd"))
    found = set()
    with tarfile.open(document["bundle"]) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member)
            assert content is not None
            if member.name.endswith(".json"):
                found.add((Path(member.name).name, validate(json.loads(content.read()))))
    assert found == {
        ("facts.json", "gpuprov.engine-facts/v1"),
        ("images.json", "gpuprov.engine-images/v1"),
        ("networks.json", "gpuprov.engine-networks/v1"),
        ("nodes.json", "gpuprov.engine-nodes/v1"),
        ("spec.json", "gpuprov.cluster-spec/v1"),
        ("doctor-lxd.json", "gpuprov.doctor/v1"),
        ("record.json", "gpuprov.record/v1"),
        ("status.json", "gpuprov.cluster-status/v1"),
        ("versions.json", "gpuprov.versions/v1"),
    }


@pytest.mark.usefixtures("typed")
@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("show", "c009"), 2),
        (("nosuch",), 2),
        (("run", "--engine", "docker", "--", "true"), 3),
        (("logs", "c000", "--bogus"), 2),
    ],
)
def test_an_error_is_a_document(argv: Argv, code: int, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["--json", *argv], host=world.host) == code
    assert validate(json.loads(capsys.readouterr().out)) == "gpuprov.error/v1"


@pytest.mark.usefixtures("typed")
def test_what_nobody_foresaw_is_a_document(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_it(*_: object, **__: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("gpuprov.shapes.nodes.Nodes", break_it)
    assert main(["list", "--json"], host=world.host) == 70
    assert validate(json.loads(capsys.readouterr().out)) == "gpuprov.error/v1"
