"""Nodes with a worker for each GPU, which take runs from a queue; the broker of the queue is in the first of them."""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.cluster.node_variables import PLAIN_FILE as VARIABLES
from gpuprov.cluster.node_variables import has_own_variables
from gpuprov.cluster.services import restart_well
from gpuprov.cluster.share_look import SHARING_HOSTS
from gpuprov.cluster.whole import members_elsewhere, recorded_whole
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.names import name_cluster
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import LABEL_ACCOUNT, LABEL_QUEUE
from gpuprov.provision.role_recipe import WORKERS as REQUIREMENTS
from gpuprov.provision.role_recipe import RoleRecipe
from gpuprov.roles.base import Diagnostics, QueueFolder, spec_of
from gpuprov.roles.controlled import ControlledRole, apply_marked
from gpuprov.roles.crew import RESUMED, Ready
from gpuprov.roles.departure import Departure
from gpuprov.roles.leftovers import ask_left
from gpuprov.roles.work.work_place import controller_argv, require_shared
from gpuprov.roles.worker import jobs, out_of_service, services
from gpuprov.roles.worker.facts import (
    APPLIED,
    ARRIVAL,
    BROKER_SERVICE,
    DEFINITIONS,
    FLOWER,
    FOLDER,
    NAME,
    PAGE_SERVICE,
    QUEUE,
    RABBITMQ,
    SCRUB_SERVICE,
    WORKERS,
)
from gpuprov.roles.worker.files import applied_file, broker_files, broker_url, worker_files
from gpuprov.roles.worker.page import PAGE_FILE, read_page
from gpuprov.roles.worker.password import BROKER_FILE, new_password, read_password
from gpuprov.roles.worker.queues import QUEUES_ARGV
from gpuprov.spec.addressing import node_name
from gpuprov.spec.rule import SpecRule
from gpuprov.spec.shared_folder import ACCOUNT, ACCOUNT_UID, SHARED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, File, NodeState
    from gpuprov.roles.base import FilesOf, Render, Secret
    from gpuprov.roles.crew import Crew
    from gpuprov.roles.departure import Job
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.roles.work.job_room import JobRoom
    from gpuprov.roles.work.queue_page import QueuePage
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.whole import Member
    from gpuprov.spec.rule import Found
    from gpuprov.verify.models import Expectation, Rule


def _job_memory(spec: ClusterSpec, _root: Path) -> Found:
    if spec.jobs.memory is not None and spec.nodes.role == NAME:
        yield "jobs.memory", "is given, but workers do not limit memory", "null, or nodes.role: slurm"


_QUEUE = QueueFolder(
    path=QUEUE,
    user="rabbitmq",
    service=BROKER_SERVICE,
    arrival=ARRIVAL,
    version="dpkg-query -W -f '${Version}' rabbitmq-server",
    count="said=$(rabbitmqctl -q list_queues -p gpuwork messages) && "
    """echo "$said" | awk '/^[0-9]+$/ {n += $1} END {print n + 0}'""",
)


class WorkerRole(ControlledRole):
    """Workers: the URL of the broker and the GPUs on every node, the broker on one, a password that they share."""

    name = NAME
    title = "worker"
    controller = "broker"
    controller_title = "broker of the workers"
    has_services = True
    shares = True
    scrubs = True
    recipe = RoleRecipe(
        roles=("broker", NAME, "work"),
        templates=(NAME,),
        brings=("gpuwork", "shapes"),
        # redis for a broker of the user's; async-timeout, as it needs that before Python 3.11.3, and pip on the host
        # does not know the last number of the node's
        requirements=(*REQUIREMENTS, "flower>=2.1,<3", "redis>=6.4,<9", "async-timeout>=4.0.3"),
        with_init=("broker", NAME),
        given={"work": {"work_uid": ACCOUNT_UID}},
        labels={LABEL_ACCOUNT: f"id -u {ACCOUNT}", LABEL_QUEUE: _QUEUE.version},
    )
    secret_files = (BROKER_FILE, PAGE_FILE)
    marks = MappingProxyType({APPLIED: "restart the workers"})
    rules = (SpecRule(reads=("nodes.role", "jobs.memory"), find=_job_memory),)
    queue = _QUEUE

    def checks(self) -> tuple[Rule, ...]:
        """That the broker and each worker answer, and that a task there sees the worker's GPU."""
        from gpuprov.roles.worker.checks import RULES  # here, for tables of nodes start sooner without

        return RULES

    def controller_name(self, spec: ClusterSpec) -> str | None:
        """The node of the broker, unless the user has one."""
        return None if spec.worker.broker else node_name(spec.nodes.prefix, 0)

    def slowest(self, spec: ClusterSpec) -> str | None:
        """RabbitMQ needs seconds."""
        return self.controller_name(spec)

    def refuse_crew(self, crew: Crew) -> None:
        """The nodes need the broker, which is on the private network, and a folder that all of them share."""
        super().refuse_crew(crew)
        members = crew.of(NAME)
        if members and not crew.spec.share:
            ours = name_cluster("gpuprov cluster up --share, as root; or --role plain", crew.spec.name)
            theirs = f"{SHARING_HOSTS} and name it: `share: FOLDER` in the spec, or --share FOLDER; or --role plain"
            raise UsageError(
                f"the workers of cluster {crew.spec.name} need a folder that all nodes share",
                evidence="share is false; jobs and what they write are in that folder",
                fix=theirs if crew.spec.hosts else ours,
            )
        alone = [member.name for member in members if not member.private_address]
        if alone and not crew.spec.worker.broker:
            raise UsageError(
                f"{alone[0]} cannot reach the broker of the workers",
                evidence="it is not on the private network, the only one on which the broker listens",
                fix="omit --network, or use --role plain",
            )

    def read_secret(self, driver: Driver, state: ClusterState) -> bytes:
        """The broker's password; empty where the broker is the user's."""
        controller = self.controller_name(spec_of(state))
        holders = sorted((node.name for node in state.nodes_of(NAME)), key=lambda name: (name != controller, name))
        return read_password(driver, holders, cluster=state.name) if holders and controller else b""

    def new_secret(self) -> bytes:
        """A password of the broker."""
        return new_password()

    def gather_files(
        self,
        driver: Driver,
        crew: Crew,
        state: ClusterState,
        image: ImageState | None,
        secret: Secret,
    ) -> Render:
        """The URL and the GPUs on each node, and the broker's own files on one."""
        self.refuse_crew(crew)
        controller = self.controller_name(crew.spec)
        address = next((member.private_address for member in crew.of(NAME) if member.name == controller), "")
        password = (secret() or self.new_secret()) if controller else b""
        url = crew.spec.worker.broker or broker_url(password, address)

        def render(member: Member) -> tuple[File, ...]:
            files = worker_files(url, member, scrub=crew.spec.gpus.scrub)
            if member.name == controller:
                files += broker_files(password, address)
            return (*files, applied_file(files))

        return render

    def abandoned(self, driver: Driver, state: ClusterState) -> tuple[str, ...]:
        """Those of its nodes that are out of service, by a process that is gone."""
        asked = self._open_controller(driver, state)
        found = out_of_service.abandoned_of(out_of_service.list_taken_out(driver, asked.node)) if asked else ()
        there = self._names(state)
        return tuple(name for name in found if name in there)

    def take_out_of_service(self, driver: Driver, state: ClusterState, names: Sequence[str]) -> tuple[str, ...]:
        """Have their workers take no run; where no node runs, none begins anyhow."""
        there = self._names(state)
        asked = self._open_controller(driver, state)
        if asked is None or not there & set(names):
            return ()
        last = self._all_go(state, Departure(nodes=tuple(names), lost=tuple(names)))
        found = out_of_service.take_out(driver, asked.node, there if last else there & set(names), last=last)
        return tuple(name for name in found if name in there)

    def put_back_in_service(
        self, driver: Driver, state: ClusterState, *, running: Sequence[str] = (), stopped: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Let them take runs; one that is stopped does so once it is started."""
        asked = self._open_controller(driver, state)
        if asked is None:
            return ()
        back = out_of_service.put_back(driver, asked.node)
        there = {node.name for node in state.nodes_of(NAME)} | {*running, *stopped}
        return tuple(name for name in (*back.own, *back.left) if name in there)

    def jobs(self, driver: Driver, state: ClusterState, departure: Departure) -> tuple[Job, ...]:
        """What runs there; where no node stays, also what waits."""
        there = {node.name for node in self._sharing(state)} | {member.name for member in self._elsewhere(state)}
        controller = (
            self._open_controller(driver, state) if there & set(departure.nodes) else None
        )  # it tells of all hosts' nodes
        if controller is None:
            return ()
        queue = self._all_go(state, departure)
        beyond = [member.name for member in self._elsewhere(state)] if queue else []
        return jobs.jobs_of_nodes(controller, (*departure.nodes, *beyond), queue=queue)

    def end_jobs(
        self,
        driver: Driver,
        state: ClusterState,
        departure: Departure,
        ending: Sequence[Job],
    ) -> tuple[str, ...]:
        """Nothing has to be said: the broker, or an idle worker, hands in again what lost its worker."""
        return () if self._all_go(state, departure) else tuple(job.id for job in ending)

    def cancel_jobs(self, driver: Driver, state: ClusterState, ending: Sequence[Job]) -> None:
        """By the program for jobs; one that has ended meanwhile stays as it is."""
        asked = self._open_controller(driver, state) if ending else None
        if asked is not None:
            asked.cancel([job.id for job in ending])

    def apply(
        self,
        driver: Driver,
        crew: Crew,
        stale: Mapping[str, Sequence[File]],
        files: FilesOf,
    ) -> None:
        """Write the files and restart what reads them, the broker first."""

        def restart(renewed: Mapping[str, frozenset[str]]) -> None:
            its = (RABBITMQ, DEFINITIONS)
            brokers = [name for name, paths in renewed.items() if any(path.startswith(its) for path in paths)]
            each(lambda name: restart_well(driver, name, BROKER_SERVICE), brokers)
            if crew.spec.gpus.scrub:
                each(lambda name: restart_well(driver, name, SCRUB_SERVICE), list(renewed))
            each(lambda name: restart_well(driver, name, WORKERS), list(renewed))
            pages = [name for name in renewed if any(file.path == FLOWER for file in files(name))]
            each(lambda name: restart_well(driver, name, PAGE_SERVICE), pages)

        own: tuple[str, ...] = (f"{FOLDER}/", f"{RABBITMQ}/")
        if any(has_own_variables(file) for lacking in stale.values() for file in lacking):
            own = (*own, VARIABLES)
        apply_marked(driver, stale, files, mark=APPLIED, own=own, restart=restart)

    def wait_ready(self, driver: Driver, crew: Crew, reporter: Reporter) -> Ready:
        """Until all workers of every node answer by the broker; nothing that is over keeps work from them."""
        expected = {member.name: len(member.gpus) for member in crew.of(NAME)}
        if not expected:
            return Ready()
        first = next(iter(expected))
        asked = self.controller_name(crew.spec) or first
        back = out_of_service.put_back(driver, first)
        words = {}
        if asked in expected:  # else it is on another host, and so may be whoever took nodes of this one out of service
            words = services.await_workers(driver, asked, expected, reporter)
            out_of_service.warn_of_kept(back.kept, expected, first, reporter)
        return Ready(words=words, undone=tuple(RESUMED.format(name) for name in back.left if name in expected))

    def states(self, driver: Driver, state: ClusterState) -> dict[str, str]:
        """How many of its workers answer for each node, of other hosts too; empty while the broker does not."""
        expected = services.count_expected(state.nodes_of(NAME))
        expected |= {member.name: len(member.gpus) for member in self._elsewhere(state)}
        asked = self._answering_node(state)
        if asked is not None and asked in self._sharing(state):
            with suppress(EngineError):
                return services.words_of_workers(driver, asked.name, expected)
        return {}

    def is_ready(self, word: str) -> bool:
        """All of a node's workers answer."""
        return word in services.READY

    def questions(
        self,
        expected: Expectation,
        *,
        timeout_s: float,
    ) -> dict[str, dict[str, object]]:
        """The workers that answer by the broker, the GPU that each one's work sees, the queues; what runs left."""
        asked = {"workers": controller_argv("workers"), "queues": QUEUES_ARGV}
        questions = {name: {"argv": argv, "timeout_s": timeout_s} for name, argv in asked.items()}
        return {**questions, "left": ask_left("GPUWORK_RUN", timeout_s=timeout_s)}

    def diagnostics(self) -> Diagnostics:
        """Logs of each node, and the broker's view of all; none of them shows a password."""
        return Diagnostics(
            node={
                # as the account: jobs can put links there, and root would read what they lead to
                "workers.txt": f"cat {FOLDER}/gpus; runuser -u work -- tail -n 2000 /shared/logs/$(hostname)/*.log",
                # without systemd, they are in the node's own log
                "services.txt": "journalctl -n 2000 --no-pager -u gpuwork -u rabbitmq-server 2>/dev/null || true",
            },
            cluster="rabbitmqctl status; rabbitmqctl -p gpuwork list_queues name messages consumers",
        )

    def job_controller(self, driver: Driver, state: ClusterState) -> JobController:
        """The broker's node, or any node that runs where the broker is the user's."""
        from gpuprov.roles.work.job_controller import JobController  # here, for tables of nodes start sooner without

        node = self._require_answering(state, "takes no jobs")
        require_shared(node, state.name, spans=recorded_whole(state) is not None)
        return JobController(driver=driver, node=node.name, cluster=state.name)

    def job_room(self, driver: Driver, state: ClusterState) -> JobRoom:
        """A worker is for one GPU, and a job has one worker."""
        from gpuprov.roles.work.job_room import JobRoom, NodeRoom  # as in `job_controller`

        whole = recorded_whole(state)
        if whole is None:
            held = [leased_uuids(node) for node in state.nodes_of(NAME)]
        else:
            held = [member.gpus for member in whole.members if member.role == NAME]
        rooms = tuple(NodeRoom(gpus=1) for gpus in held for _ in gpus)
        return JobRoom(cluster=state.name, nodes=rooms, unit="worker", has_memory=False)

    def queue_page(self, driver: Driver, state: ClusterState) -> QueuePage:
        """Flower's, beside the broker; none where the broker is the user's."""
        if self.controller_name(spec_of(state)) is None:
            raise UsageError(
                f"cluster {state.name} has no page of its queue",
                evidence="its broker is your own (worker.broker); Flower runs only beside a broker of gpuprov's",
                fix=name_cluster("list its jobs: gpuprov jobs", state.name),
            )
        return read_page(driver, self._require_answering(state, "has no page of its queue").name, cluster=state.name)

    def next_steps(self, spec: ClusterSpec, nodes: Sequence[str]) -> tuple[str, ...]:
        """Work for the queue, and a look at it."""
        return ("gpuprov submit --no-project -- python3 -m smoke_kernels matmul", "gpuprov jobs")

    def _answering_node(self, state: ClusterState) -> NodeState | None:
        """The node that speaks for all: the broker's, or one that runs where the broker is the user's."""
        controller = self.controller_name(spec_of(state))
        running = [node for node in state.nodes_of(NAME) if node.status == "running"]
        return next((node for node in running if node.name == (controller or node.name)), None)

    def _sharing(self, state: ClusterState) -> list[NodeState]:
        """The nodes with the folder of jobs; those that an early gpuprov called workers have none."""
        return [node for node in state.nodes_of(NAME) if any(mount.target == SHARED for mount in node.mounts)]

    def _require_answering(self, state: ClusterState, lack: str) -> NodeState:
        node = self._answering_node(state)
        if node is None:
            there = self.diagnosed_node(state)
            raise UsageError(
                f"cluster {state.name} {lack} now: {there.name} is {there.status}",
                evidence=f"{there.name} runs the {self.controller_title}",
                fix=f"start it: gpuprov start {there.name}",
            )
        return node

    def _open_controller(self, driver: Driver, state: ClusterState) -> JobController | None:
        """Any node that runs can tell of jobs, which are in the shared folder; None where none runs."""
        from gpuprov.roles.work.job_controller import JobController  # as in `job_controller`

        running = [node.name for node in self._sharing(state) if node.status == "running"]
        return JobController(driver=driver, node=running[0], cluster=state.name) if running else None

    def _all_go(self, state: ClusterState, departure: Departure) -> bool:
        """Whether no node stays; of a cluster that spans hosts, those of the broker's host go first, and alone."""
        here = {node.name for node in state.nodes_of(NAME)}
        controller = self.controller_name(spec_of(state))
        return here <= set(departure.lost) and (not self._elsewhere(state) or controller is None or controller in here)

    def _names(self, state: ClusterState) -> set[str]:
        """All nodes with workers, on whatever host."""
        return {node.name for node in state.nodes_of(NAME)} | {member.name for member in self._elsewhere(state)}

    def _elsewhere(self, state: ClusterState) -> list[Member]:
        """The nodes on other hosts, as recorded here."""
        return [member for member in members_elsewhere(state) if member.role == NAME]
