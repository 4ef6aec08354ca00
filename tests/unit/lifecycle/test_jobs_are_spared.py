"""Whatever stops, removes, restarts or restores a node: no job dies unannounced, and no node stays drained."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import GpuprovError, TimedOut, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.lifecycle import remove_nodes, start_stop
from gpuprov.lifecycle.cluster_down import DownLosses, cluster_down, foresee_losses
from gpuprov.lifecycle.cluster_order import ClusterOrder
from gpuprov.lifecycle.cluster_up import UpOrder, cluster_up, preview_changes
from gpuprov.lifecycle.create_node import create_node
from gpuprov.lifecycle.ensure import ensure_node
from gpuprov.lifecycle.leaving import SPARE_JOBS, JobsPolicy
from gpuprov.stories.ensure_cluster import ensure_cluster
from tests.fakes.faults import Killed
from tests.fakes.host import one_host
from tests.fakes.slurm import Drain, FakeJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.drivers.base import ExecResult
    from gpuprov.shapes.node_order import NodeOrder
    from tests.fakes.engine import Command
    from tests.fakes.world import World

    Verb = Callable[[World, JobsPolicy], object]

ALICE = FakeJob(id="17", nodes="c[001-002]", user="alice", name="train")
FORCE = JobsPolicy(force=True)


def rm(world: World, policy: JobsPolicy) -> object:
    return remove_nodes.remove_nodes(world.driver, ["c002"], world.host, reporter=world.reporter, policy=policy)


def stop(world: World, policy: JobsPolicy) -> object:
    return start_stop.stop_nodes(world.driver, ["c002"], world.host, reporter=world.reporter, policy=policy)


def restore(world: World, policy: JobsPolicy) -> object:
    return start_stop.restore(world.driver, "c002", "good", world.host, reporter=world.reporter, policy=policy)


def pause(world: World, policy: JobsPolicy) -> object:
    """For a snapshot, on an engine that copies files: after a minute of it Slurm takes the node for dead."""
    world.engine.snapshot_pauses = True
    return start_stop.snapshot(world.driver, "c002", "new", world.host, reporter=world.reporter, policy=policy)


def shrink(world: World, policy: JobsPolicy) -> object:
    order = UpOrder(spec=world.spec(2), policy=policy)
    return cluster_up(world.driver, order, world.host, reporter=world.reporter)


def repair(world: World, policy: JobsPolicy) -> object:
    """Whose privileges were changed: it starts again."""
    world.engine.nodes["c002"].privileged = True
    try:
        order = UpOrder(spec=world.spec(3), policy=policy)
        return cluster_up(world.driver, order, world.host, reporter=world.reporter)
    except BaseException:
        world.engine.nodes["c002"].privileged = False
        raise


def make_again(world: World, policy: JobsPolicy) -> object:
    """Which has lost its last label, and is in service all the same."""
    with unlabelled(world):
        order = UpOrder(spec=world.spec(3), policy=policy)
        return cluster_up(world.driver, order, world.host, reporter=world.reporter)


def create_again(world: World, policy: JobsPolicy) -> object:
    with unlabelled(world):
        return create_node(world.driver, order_of("c002"), world.host, reporter=world.reporter, policy=policy)


def module_present(world: World, policy: JobsPolicy) -> object:
    wanted = order_of("c002")
    with unlabelled(world):
        return ensure_node(world.driver, wanted, "present", world.host, reporter=world.reporter, policy=policy)


@contextmanager
def unlabelled(world: World) -> Iterator[None]:
    """For the block, c002 looks unfinished; it gets its last label back if the block fails."""
    node = world.engine.nodes["c002"]
    fingerprint = node.labels.pop("gpuprov.fingerprint")
    try:
        yield
    except BaseException:
        node.labels["gpuprov.fingerprint"] = fingerprint
        raise


def down(world: World, policy: JobsPolicy) -> object:
    return cluster_down(world.driver, "lab", world.host, reporter=world.reporter, policy=policy)


def order_of(name: str) -> NodeOrder:
    from gpuprov.shapes.node_order import NodeOrder

    return NodeOrder(name=name, cluster="lab")


def module_stopped(world: World, policy: JobsPolicy) -> object:
    wanted = order_of("c002")
    return ensure_node(world.driver, wanted, "stopped", world.host, reporter=world.reporter, policy=policy)


def module_absent(world: World, policy: JobsPolicy) -> object:
    return ensure_node(world.driver, order_of("c002"), "absent", world.host, reporter=world.reporter, policy=policy)


def module_cluster(world: World, policy: JobsPolicy) -> object:
    return ensure_cluster(one_host(world, world.driver), ClusterOrder(policy=policy), "absent")


MODULES = (module_present, module_stopped, module_absent, module_cluster)
VERBS: dict[str, Verb] = {
    verb.__name__: verb for verb in (rm, stop, restore, pause, shrink, repair, make_again, create_again, down, *MODULES)
}


@pytest.fixture(params=VERBS)
def verb(request: pytest.FixtureRequest, world: World) -> Verb:
    """A verb that ends what runs in c002, of three nodes."""
    world.begin_with(3)
    start_stop.snapshot(world.driver, "c002", "good", world.host, reporter=world.reporter)
    return VERBS[request.param]


def holders(world: World) -> dict[str, str]:
    """Who drained the nodes that are there."""
    return {name: drain.user for name, drain in world.slurm.drains.items() if name in world.engine.nodes}


def refused(world: World, verb: Verb, policy: JobsPolicy = SPARE_JOBS) -> GpuprovError:
    """The error of a verb that must change nothing."""
    before, queue = world.engine.dump(), list(world.slurm.queue)
    drains = holders(world)
    with pytest.raises(UsageError) as caught:
        verb(world, policy)
    assert world.engine.dump() == before
    assert world.slurm.queue == queue
    assert holders(world) == drains
    return caught.value


def test_a_job_is_named_and_its_node_stays(world: World, verb: Verb) -> None:
    world.slurm.queue = [ALICE]
    error = refused(world, verb)
    assert error.what in ("there are jobs on c002", "there are jobs on c[000-002]")
    assert "job 17 of alice (train) on c[001-002]" in error.evidence
    assert "--drain" in error.fix
    assert "--force" in error.fix


def test_a_job_that_starts_between_the_plan_and_the_drain_is_seen(world: World, verb: Verb) -> None:
    """Of 60 queued jobs one had started, and was lost: the look comes after the drain."""
    started: list[FakeJob] = []

    def start(names: tuple[str, ...]) -> None:
        assert "c002" in names
        if not started:
            started.append(ALICE)
            world.slurm.queue.append(ALICE)

    world.slurm.on_drain = start
    with pytest.raises(UsageError, match="there are jobs on"):
        verb(world, SPARE_JOBS)
    assert world.slurm.queue == started == [ALICE]
    assert world.engine.nodes["c002"].status == "running"
    assert holders(world) == {}


def test_a_job_whose_srun_runs_on_the_node_ends_with_it(world: World, verb: Verb) -> None:
    world.slurm.queue = [FakeJob(id="18", nodes="c001", client="c002")]
    assert "job 18 of alice" in refused(world, verb).evidence


def test_a_look_that_fails_is_a_refusal(world: World, verb: Verb) -> None:
    world.slurm.broken = True
    error = refused(world, verb)
    assert "cannot tell whether jobs run on" in error.what
    assert "Unable to contact slurm controller" in error.evidence
    assert "--force" in error.fix


def test_a_look_that_hangs_is_a_refusal(world: World, verb: Verb) -> None:
    def hang() -> None:
        raise TimedOut("`squeue` did not finish", evidence="no output", fix="gpuprov shell c000")

    world.slurm.on_look = hang
    assert "`squeue` did not finish" in refused(world, verb).evidence


def test_force_ends_the_jobs_and_says_whose(world: World, verb: Verb) -> None:
    interactive = FakeJob(id="18", nodes="c001", client="c002", user="bob", name="bash")
    elsewhere = FakeJob(id="19", nodes="c000", user="carol")
    world.slurm.queue = [ALICE, interactive, elsewhere]
    verb(world, FORCE)
    assert "warn ending job 17 of alice (train) on c[001-002]" in world.reporter.lines
    assert "warn ending job 18 of bob (bash) on c001" in world.reporter.lines
    if world.engine.nodes:  # Slurm knows at once
        assert [job.state for job in world.slurm.queue if job.id == "17"] == ["PD"]
        assert "note job 17 is queued again" in world.reporter.lines
        assert world.slurm.cancelled == ["18"]
        assert elsewhere in world.slurm.queue
        assert holders(world) == {}


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"pause"}), indirect=True)
def test_what_was_forced_is_named(world: World, verb: Verb) -> None:
    forced = world.engine.stubborn["c002"] = "killed, as it did not shut down within 10 s"
    changed: tuple[str, ...] = verb(world, SPARE_JOBS).changed  # type: ignore[attr-defined]
    assert [line for line in changed if "c002" in line and line.endswith(f" ({forced})")]


@pytest.mark.parametrize("verb", ["stop", "down", "rm"], indirect=True)
def test_force_goes_on_with_a_broken_controller(world: World, verb: Verb) -> None:
    world.slurm.broken = True
    verb(world, FORCE)
    assert not [line for line in world.reporter.lines if "could not resume" in line], "nothing was held"
    assert any(
        "jobs on c[000-002] will end" in line or "jobs on c002 will end" in line for line in world.reporter.lines
    )
    assert "c002" not in world.engine.nodes or world.engine.nodes["c002"].status == "stopped"


class Ticks:
    """A clock for waits, on which each pause may be something that happens."""

    def __init__(self, *happenings: Callable[[], object]) -> None:
        self.seconds = 0.0
        self._happenings = [*happenings]

    def now_s(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        if self._happenings:
            self._happenings.pop(0)()


def test_drain_waits_for_the_jobs_without_the_lock(world: World, verb: Verb) -> None:
    world.slurm.queue = [FakeJob(id="17", nodes="c002"), FakeJob(id="18", nodes="c002")]

    def end_one() -> None:
        assert "c002" in world.slurm.drains
        assert world.engine.nodes["c002"].status == "running"
        with world.host.lock(Silent()):
            world.slurm.queue.pop(0)

    verb(world, JobsPolicy(drain_s=60.0, clock=Ticks(end_one, end_one)))
    assert "note waiting for job 17 of alice (train) on c002, job 18 of alice (train) on c002" in world.reporter.lines
    assert "note waiting for job 18 of alice (train) on c002" in world.reporter.lines
    assert holders(world) == {}
    assert not [line for line in world.reporter.lines if line.startswith("warn ending")]


def test_a_drain_that_lasts_too_long_is_given_up_and_undone(world: World, verb: Verb) -> None:
    world.slurm.queue = [ALICE]
    before = world.engine.dump()
    with pytest.raises(TimedOut) as caught:
        verb(world, JobsPolicy(drain_s=60.0, clock=Ticks()))
    assert "job 17 of alice" in caught.value.evidence
    assert world.engine.dump() == before
    assert holders(world) == {}


def test_a_drain_with_force_ends_what_has_not_ended_in_time(world: World, verb: Verb) -> None:
    world.slurm.queue = [ALICE]
    verb(world, JobsPolicy(drain_s=60.0, force=True, clock=Ticks()))
    assert "warn ending job 17 of alice (train) on c[001-002]" in world.reporter.lines


def test_an_interrupted_drain_is_undone(world: World, verb: Verb) -> None:
    world.slurm.queue = [ALICE]

    def interrupt() -> None:
        raise KeyboardInterrupt

    before = world.engine.dump()
    with pytest.raises(KeyboardInterrupt):
        verb(world, JobsPolicy(drain_s=60.0, clock=Ticks(interrupt)))
    assert world.engine.dump() == before
    assert holders(world) == {}


def test_create_node_names_the_verb_that_has_options_for_jobs(world: World) -> None:
    world.begin_with(3)
    world.slurm.queue = [ALICE]
    with unlabelled(world):
        with pytest.raises(UsageError) as caught:
            world.create("c002")
        assert caught.value.fix == "gpuprov rm c002 --drain, or with --force to end them; then repeat the command"
        world.slurm.broken = True
        with pytest.raises(UsageError) as caught:
            world.create("c002")
        assert "; or gpuprov rm c002 --force, even if jobs are running" in caught.value.fix
    assert "c002" in world.engine.nodes


def test_create_node_refuses_before_it_removes_anything(world: World) -> None:
    world.begin_with(3)
    with unlabelled(world):
        before = world.engine.dump()
        with pytest.raises(UsageError, match="GPU"):
            world.create("c002", gpus="99")
        assert world.engine.dump() == before
        assert holders(world) == {}


def test_an_unfinished_node_that_runs_does_not_block_its_own_address(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin_with(3)
    monkeypatch.setattr(type(world.host), "answers", lambda *_: True)
    world.engine.nodes["c002"].labels.pop("gpuprov.fingerprint")
    assert "removed unfinished node c002" in world.create("c002").changed


def test_a_snapshot_that_pauses_nothing_is_taken_under_jobs(world: World) -> None:
    world.begin_with(3)
    world.slurm.queue = [ALICE]
    world.slurm.broken = True
    taken = start_stop.snapshot(world.driver, "c002", "new", world.host, reporter=world.reporter)
    assert taken.changed == ("took snapshot new of c002",)


@pytest.mark.parametrize("step", ["snapshot_node", "snapshot_node:done"])
def test_a_snapshot_that_was_killed_is_repeated_and_its_node_takes_jobs(world: World, step: str) -> None:
    world.begin_with(3)
    world.engine.faults.raise_at(Killed(), step)
    with pytest.raises(Killed):
        pause(world, SPARE_JOBS)
    world.engine.faults.clear()
    assert holders(world) == {"c002": "root"}
    world.slurm.forget_runs()
    pause(world, SPARE_JOBS)
    assert "new" in world.engine.nodes["c002"].snapshots
    assert holders(world) == {}


def test_a_story_that_fails_lets_its_nodes_work_again(world: World) -> None:
    world.begin_with(3)
    world.engine.faults.raise_at(UsageError("no", evidence="e", fix="f"), "stop_node")
    with pytest.raises(UsageError, match="no"):
        stop(world, SPARE_JOBS)
    assert holders(world) == {}
    assert world.slurm.down == set()


def test_a_story_that_fails_later_does_too(world: World) -> None:
    world.begin_with(3)
    world.engine.nodes["c002"].privileged = True
    world.engine.faults.raise_at(UsageError("no", evidence="e", fix="f"), "create_node")
    with pytest.raises(UsageError, match="no"):
        world.up(4)
    assert not world.engine.nodes["c002"].privileged
    assert holders(world) == {}


def test_a_controller_that_hangs_does_not_keep_force_from_going_on(world: World) -> None:
    world.begin_with(3)

    def hang(command: Command) -> ExecResult:
        if command.argv[0] in ("sinfo", "squeue", "scontrol") or "sinfo" in command.argv[-1]:
            raise TimedOut("it did not finish", evidence="no output", fix="gpuprov shell c000")
        return world.slurm(command)

    world.engine.answer = hang
    assert "it did not finish" in refused(world, stop).evidence
    stop(world, FORCE)
    assert world.engine.nodes["c002"].status == "stopped"
    rm(world, FORCE)
    assert "c002" not in world.names
    down(world, FORCE)
    assert world.names == []


def test_what_a_job_leaves_behind_is_waited_for_and_no_job(world: World) -> None:
    world.begin_with(3)
    world.slurm.queue = [FakeJob(id="17", nodes="c002", state="CG")]
    stop(world, JobsPolicy(clock=Ticks(world.slurm.queue.clear)))
    assert world.engine.nodes["c002"].status == "stopped"


def test_a_job_that_does_not_end_for_all_its_completing_is_one(world: World) -> None:
    world.begin_with(3)
    world.slurm.queue = [FakeJob(id="17", nodes="c002", state="CG")]
    assert "job 17" in refused(world, stop, JobsPolicy(clock=Ticks())).evidence
    stop(world, JobsPolicy(force=True, clock=Ticks()))
    assert world.engine.nodes["c002"].status == "stopped"


def test_an_administrator_s_drain_stays(world: World, verb: Verb) -> None:
    world.slurm.drains["c002"] = Drain(reason="the fan is loud", user="carol")
    world.slurm.queue = [ALICE]
    refused(world, verb)
    assert world.slurm.drains["c002"].reason == "the fan is loud"
    world.slurm.queue = []
    verb(world, SPARE_JOBS)
    if "c002" in world.engine.nodes:
        assert world.slurm.drains["c002"].reason == "the fan is loud"


def test_up_does_not_wait_for_a_node_that_an_administrator_drained(world: World) -> None:
    world.begin_with(3)
    world.slurm.drains["c001"] = Drain(reason="the \x1b[2J fan", user="carol")
    assert world.up(3).unchanged
    (told,) = [line for line in world.reporter.lines if "c001 is drained" in line]
    assert "the \\x1b[2J fan (set by carol)" in told
    assert world.slurm.drains["c001"].user == "carol"


@pytest.mark.parametrize("by_up", [False, True])
def test_what_was_stopped_starts_without_a_word_of_a_killed_run(world: World, by_up: bool) -> None:
    """Whoever stops the controller's node drains it, and cannot take that back."""
    world.begin_with(3)
    start_stop.stop_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    assert holders(world) == {"c000": "root"}
    world.slurm.forget_runs()
    started = (
        world.up(3) if by_up else start_stop.start_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    )
    assert started.changed == ("start node c000" if by_up else "started c000",)
    assert holders(world) == {}


def test_up_says_and_undoes_the_drain_of_a_killed_run(world: World) -> None:
    world.begin_with(3)
    world.engine.faults.raise_at(Killed(), "stop_node")
    with pytest.raises(Killed):
        stop(world, SPARE_JOBS)
    world.engine.faults.clear()
    assert holders(world) == {"c002": "root"}
    world.slurm.forget_runs()
    told = preview_changes(world.driver, world.spec(3), world.host, reporter=world.reporter)
    assert told == ("resume c002: a killed gpuprov run left it drained",)
    assert holders(world) == {"c002": "root"}, "a plan changes nothing"
    assert world.up(3).changed == told
    assert holders(world) == {}
    assert world.up(3).unchanged


def test_a_drain_of_another_run_that_goes_on_stays(world: World) -> None:
    world.begin_with(3)
    world.slurm.queue = [ALICE]

    def meanwhile() -> None:
        world.slurm.drains["c002"].reason = world.slurm.drains["c002"].reason.replace(" 0", " 1")
        world.slurm.drains["c001"] = Drain(reason="drained by gpuprov; process elsewhere b n 1 1")
        world.create("web", role="plain")  # a run of its own, whose `wait_ready` sees both
        assert "c001" in world.slurm.drains
        world.slurm.queue.clear()

    stop(world, JobsPolicy(drain_s=60.0, clock=Ticks(meanwhile)))
    assert holders(world) == {"c001": "root"}


def test_a_stopped_node_takes_jobs_once_it_is_started(world: World) -> None:
    world.begin_with(3)
    stop(world, SPARE_JOBS)
    assert world.slurm.down == {"c002"}, "else Slurm would start jobs on it for a minute"
    assert holders(world) == {}
    start_stop.start_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    assert world.slurm.down == set()


def test_a_controller_that_comes_back_has_its_nodes_take_jobs(world: World) -> None:
    """It was drained when it was stopped, and nobody could undrain it then; nor before it has registered."""
    world.begin_with(3)
    start_stop.stop_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    assert holders(world) == {"c000": "root"}
    world.slurm.unregistered = 2
    start_stop.start_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    assert holders(world) == {}


def test_without_a_controller_a_node_s_own_processes_are_looked_at(world: World) -> None:
    world.begin_with(3)
    start_stop.stop_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    world.slurm.queue = [ALICE]
    assert "job 17 of ? (?) on c002" in refused(world, stop).evidence
    world.slurm.queue = []
    stop(world, SPARE_JOBS)
    assert world.engine.nodes["c002"].status == "stopped"
    start_stop.start_nodes(world.driver, ["c000", "c002"], world.host, reporter=world.reporter)
    assert holders(world) == {}


@pytest.mark.parametrize("state", ["R", "PD"])
def test_the_queue_s_jobs_are_jobs_where_the_queue_goes(world: World, state: str) -> None:
    """The controller's disk has it: a waiting job is lost with it, and one that runs elsewhere too."""
    world.begin_with(3)
    start_stop.snapshot(world.driver, "c000", "good", world.host, reporter=world.reporter)
    world.slurm.queue = [FakeJob(id="20", nodes="c001" if state == "R" else "", state=state)]

    def restore_controller(world: World, policy: JobsPolicy) -> object:
        return start_stop.restore(world.driver, "c000", "good", world.host, reporter=world.reporter, policy=policy)

    def rm_all(world: World, policy: JobsPolicy) -> object:
        return remove_nodes.remove_nodes(world.driver, world.names, world.host, reporter=world.reporter, policy=policy)

    for verb in (restore_controller, rm_all, down):
        assert "job 20 of alice (train)" in refused(world, verb).evidence
    start_stop.stop_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)


def test_what_would_be_lost_is_said_and_nothing_changes(world: World) -> None:
    def losses(policy: JobsPolicy = SPARE_JOBS) -> DownLosses:
        return foresee_losses(world.driver, "lab", world.host, policy)

    assert losses() == DownLosses(lines=())
    world.begin_with(2)
    world.engine.nodes["c001"].snapshots["good"] = {}
    nodes = (
        "2 nodes with all data on their disks: c[000-001]",
        "1 snapshot: good of c001",
        "the GPU hours of jobs of srun and sbatch, as its spec has no accounting",
    )
    assert losses() == DownLosses(lines=nodes)
    world.slurm.queue = [FakeJob(id="20", state="PD", name="\x1b[31mred\nline")]
    world.engine.faults.clear()
    told = losses()
    assert told.lines == (*nodes, "there are jobs on c[000-001]: job 20 of alice (\\x1b[31mred) waiting")
    assert told.busy
    for agreed in (JobsPolicy(force=True), JobsPolicy(drain_s=60.0)):
        assert losses(agreed) == DownLosses(lines=told.lines)
    world.slurm.broken = True
    assert "cannot tell whether jobs run" in losses().lines[len(nodes)]
    assert world.steps() == []
    assert holders(world) == {}


def test_many_jobs_are_counted(world: World) -> None:
    world.begin_with(3)
    world.slurm.queue = [FakeJob(id=str(number), nodes="c002") for number in range(100, 150)]
    evidence = refused(world, stop).evidence
    assert evidence.count("job ") == 20
    assert evidence.endswith("and 30 more")


def test_two_clusters_have_the_same_ids(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of one cluster are ended by its own controller."""
    from gpuprov.roles.slurm.role import SlurmRole

    ended: list[Any] = []
    world.begin_with(3)
    world.slurm.queue = [ALICE]
    role_end = SlurmRole.end_jobs

    def end(self: SlurmRole, driver: Any, state: Any, departure: Any, ending: Any) -> tuple[str, ...]:
        ended.append((state.name, [job.id for job in ending]))
        return role_end(self, driver, state, departure, ending)

    monkeypatch.setattr(SlurmRole, "end_jobs", end)
    stop(world, FORCE)
    assert ended == [("lab", ["17"])]
