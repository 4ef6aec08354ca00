"""An engine that is installed and silent, dead or hung, is named by every verb that would have asked it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.verbs import VERBS
from gpuprov.cluster.build_image import EnsuredImage
from gpuprov.core.errors import EngineError
from gpuprov.machine import survey as module
from gpuprov.machine.survey import EngineDoor
from tests.fakes.doors import AnswersOfTheRest, HungEngine, door_of, door_without
from tests.unit.cli.module_stage import act

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.core.execution import Completed
    from gpuprov.drivers.base import Driver
    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.world import World

MODEL = str(Path(__file__).parents[3] / "examples/anneal/ackley.py")
PROGRAM = str(Path(__file__).parents[3] / "examples/kmeans/program")
DATA = str(Path(__file__).parents[3] / "examples/kmeans/points.csv")
GRID = str(Path(__file__).parents[2] / "data/grid")
# What is typed about something that is there, and about something that no engine which answers has.
ASKING: dict[str, tuple[list[str], list[str] | None]] = {
    "create-node": (["web", "--cluster", "lab", "--role", "plain", "--gpus", "0"], None),
    "cluster up": (["--no-verify"], None),
    "cluster plan": ([], None),
    "cluster list": ([], None),
    "cluster status": (["lab"], ["other"]),
    "cluster down": (["lab", "--yes"], ["other"]),
    "cluster spec": (["lab"], ["other"]),
    "cluster save": (["lab.tar"], ["other.tar", "other"]),
    "usage": ([], ["--cluster", "other"]),
    "person add": (["ann"], ["ann", "--cluster", "other"]),
    "person set": (["ann", "--gpus", "1"], ["ann", "--gpus", "1", "--cluster", "other"]),
    "person rm": (["ann"], ["ann", "--cluster", "other"]),
    "person list": ([], ["--cluster", "other"]),
    "verify": ([], ["--cluster", "other"]),
    "smoke": (["matmul"], ["matmul", "--cluster", "other"]),
    "submit": (["--no-project", "--", "true"], ["--no-project", "--cluster", "other", "--", "true"]),
    "jobs": ([], ["--cluster", "other"]),
    "jobs show": (["1"], ["1", "--cluster", "other"]),
    "jobs logs": (["1"], ["1", "--cluster", "other"]),
    "jobs cancel": (["1"], ["1", "--cluster", "other"]),
    "jobs pull": (["1"], ["1", "--cluster", "other"]),
    "jobs rm": (["1", "--yes"], ["1", "--yes", "--cluster", "other"]),
    "jobs wait": (["1"], ["1", "--cluster", "other"]),
    "queue page": ([], ["--cluster", "other"]),
    "rest": ([], ["--cluster", "other"]),
    "token": ([], ["--cluster", "other"]),
    **{
        f"grid {verb}": ([GRID], [GRID, "--cluster", "other"])
        for verb in ("run", "status", "results", "pull", "cancel")
    },
    "program run": ([PROGRAM, "--data", DATA], [PROGRAM, "--data", DATA, "--cluster", "other"]),
    "program list": ([], ["--cluster", "other"]),
    "program rm": (["0" * 64], ["0" * 64, "--cluster", "other"]),
    "program page": ([], ["--cluster", "other"]),
    "hardware": ([], None),
    "anneal run": ([MODEL], [MODEL, "--cluster", "other"]),
    "gpus": ([], None),
    "list": ([], None),
    "show": (["c000"], ["c009"]),
    "start": (["c000"], ["c009"]),
    "stop": (["c001"], ["c009"]),
    "rm": (["c001"], ["c009"]),
    "exec": (["c000", "--", "true"], ["c009", "--", "true"]),
    "shell": (["c000"], ["c009"]),
    "ssh": (["c000", "true"], ["c009", "true"]),
    "cp": (["/etc/hostname", "c000:/tmp"], ["/etc/hostname", "c009:/tmp"]),
    "logs": (["c000"], ["c009"]),
    "clone": (["c001", "web"], ["c009", "web"]),
    "snapshot": (["c000", "s"], ["c009", "s"]),
    "restore": (["c000", "s"], ["c009", "s"]),
    "expose": (["c000", "80", "--port", "7000"], ["c009", "80"]),
    "unexpose": (["c000", "7000"], ["c009", "7000"]),
    "inventory": ([], None),
    "image list": ([], None),
    "image rm": (["gpuprov-image-plain"], ["nothing"]),
    "run": (["--gpus", "1", "--engine", "lxd", "--", "true"], None),
    "run ps": ([], None),
    "run logs": (["train"], ["train"]),
    "run stop": (["train"], ["train"]),
    "run rm": (["train"], ["train"]),
}
NOT_ASKING = {
    "play": "its inventory does",
    "cluster restore": "what `cluster up` would ask",
    "doctor": "of the one engine that is named, or the default one",
    "explain": "needs no engine",
    "anneal check": "needs no engine",
    "program check": "needs no engine",
    **dict.fromkeys(("host add", "host list", "host show", "host remove"), "asks other hosts, whose engines they tell"),
    "cdi": "of GPUs only",
    **dict.fromkeys(("host mig export", "host mig assert"), "of GPUs only"),
    "host mig apply": "refuses where one is silent, if a GPU would change: tests/unit/lifecycle/test_mig.py",
    "record": "of GPUs only",
    "bundle": "says what is missing in the archive",
    **dict.fromkeys(("gate up", "gate down", "gate status", "gate check", "gate explain"), "of Docker alone"),
    "host prepare": "makes one ready",
    "host undo": "of one engine",
    "image build": "with a cluster's bridge; for a bridge of its own it does: below",
    "kubernetes manifests": "needs no engine",
    "completion": "prints a script",
    "example lab": "writes files",
    "example program": "writes files",
}
RUNS = (["run", "ps"], "no containers of `gpuprov run`")
SECOND = ("cluster", "up", "--name", "two", "-n", "1", "--role", "plain", "--gpus-per-node", "0", "--no-verify")
GONE = {verb: missing for verb, (_, missing) in ASKING.items() if missing is not None}


def test_the_table_has_every_verb() -> None:
    assert {*ASKING, *NOT_ASKING} == {path for path, verb in VERBS.items() if verb.module is not None}


@pytest.fixture(params=["dead", "hung"])
def silent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineDoor]:
    """Docker, which is installed."""
    monkeypatch.setattr(module, "SimpleQueue", AnswersOfTheRest)
    if request.param == "dead":
        yield door_without("docker", installed=True)
        return
    hung = HungEngine("docker")
    yield hung.door
    hung.release()


@pytest.fixture
def place(
    world: World, silent: EngineDoor, programs: ForkedPrograms, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> World:
    """LXD with a cluster of two nodes, beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(shutil.which("git") or "git")
    without_compilers = {"PATH": str(tmp_path / "bin")}  # which need seconds for a program

    def check(argv: Sequence[str], *, environment: Mapping[str, str], **options: Any) -> Completed:
        return programs.check_here(argv, environment={**environment, **without_compilers}, **options)

    monkeypatch.setattr("gpuprov.project.order_check.run", check)
    world.begin_with(2)
    lxd = world.driver
    lxd.name = "lxd"
    world.host.engines = (door_of(lxd), silent)
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in ("gpuprov.stories.enter_node", "tests.fakes.driver"):
        monkeypatch.setattr(f"{place}.run_attached", lambda _argv: 0)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("verb", ASKING)
def test_a_verb_that_finds_what_it_wants_names_it(place: World, verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    main(["-q", *verb.split(), *ASKING[verb][0]], host=place.host)
    said = capfd.readouterr()
    assert "docker is not running" in said.out + said.err or "docker does not respond" in said.out + said.err, said


@pytest.mark.parametrize(
    "typed",
    [
        ["create-node", "web", "--cluster", "two", "--role", "plain", "--gpus", "0"],
        ["create-node", "web", "--cluster", "two", "--role", "plain", "--gpus", "0", "--engine", "lxd"],
        ["cluster", "plan", "--name", "two", "--gpus-per-node", "0", "--engine", "lxd"],
        [*SECOND],
        [*SECOND, "--engine", "lxd"],
    ],
    ids=" ".join,
)
def test_it_is_named_once_where_its_networks_might_be_taken(
    place: World, typed: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where the engine to use is named: the silent one's bridges may be away, and its subnets look free."""
    main(["-q", *typed], host=place.host)
    assert capfd.readouterr().err.count("warning: docker is omitted") == 1


@pytest.mark.parametrize(("argv", "nothing"), [(["list"], "no nodes"), (["cluster", "list"], "no clusters"), RUNS])
def test_a_list_without_its_answer_is_not_said_to_be_empty(
    place: World, argv: list[str], nothing: str, capfd: pytest.CaptureFixture[str]
) -> None:
    place.engine.nodes.clear()
    assert main(argv, host=place.host) == 0
    assert capfd.readouterr().out == f"{nothing} where there is an answer\n"


@pytest.mark.parametrize("verb", ["start", "stop"])
def test_an_engine_that_is_named_is_not_asked_again_for_a_node_that_it_lacks(
    place: World, verb: str, capfd: pytest.CaptureFixture[str]
) -> None:
    lxd, opened = place.driver, []

    def connect() -> Driver:
        opened.append(verb)
        return lxd

    place.host.engines = (EngineDoor(name="lxd", open=connect, installed=lambda: True), *place.host.engines[1:])
    assert main([verb, "c009", "--engine", "lxd"], host=place.host) != 0
    assert "there is no node c009\nevidence: nodes: c[000-001]" in capfd.readouterr().err
    assert len(opened) == 1


@pytest.mark.parametrize("engine", [[], ["--engine", "lxd"]])
def test_an_image_build_that_makes_a_bridge_names_it_once(
    place: World, engine: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place.empty()
    monkeypatch.setattr(
        "gpuprov.cluster.images.ensure_image",
        lambda driver, *_, **__: EnsuredImage(image=driver.list_images()[0], built=True),
    )
    assert main(["-q", "image", "build", "--package", "git", *engine], host=place.host) == 0
    assert capfd.readouterr().err.count("warning: docker is omitted") == 1


def test_hardware_of_this_host_alone_names_it(place: World, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["hardware", "--cluster", "other"], host=place.host) == 0
    said = capfd.readouterr().err
    assert "this host only" in said
    assert "docker is not running" in said or "docker does not respond" in said, said


@pytest.mark.slow
@pytest.mark.parametrize("verb", GONE)
def test_a_verb_that_does_not_find_it_fails_and_names_it(
    place: World, verb: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = place.engine.dump()
    assert main([*verb.split(), *GONE[verb]], host=place.host) == EngineError.exit_code
    said = capfd.readouterr()
    assert "docker does not answer: there is no" in said.err
    assert "on the engines that respond" in said.err
    assert "docker is not running" in said.err or "docker does not respond" in said.err
    assert said.out == ""
    assert place.engine.dump() == before


@pytest.mark.slow
def test_the_module_image_names_it_where_no_other_engine_has_the_image(
    place: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.machine.local.LocalHost", lambda: place.host)
    with pytest.raises(EngineError, match="there is no image nothing on the engines that respond") as told:
        act("image", state="absent", name="nothing")
    assert "docker is not running" in told.value.evidence or "docker does not respond" in told.value.evidence
