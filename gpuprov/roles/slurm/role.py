"""Nodes of a Slurm cluster: one of them runs the controller, and jobs are handed to it."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpuprov.cluster.services import reload_ssh, restart_well
from gpuprov.cluster.whole import is_elsewhere, recorded_whole
from gpuprov.core.errors import UsageError
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import LABEL_ACCOUNT, LABEL_QUEUE, File
from gpuprov.provision.role_recipe import SHAPES, RoleRecipe
from gpuprov.roles.base import Diagnostics, QueueFolder, spec_of
from gpuprov.roles.controlled import ControlledRole, apply_marked
from gpuprov.roles.crew import RESUMED, Ready
from gpuprov.roles.slurm import (
    accounting,
    backup,
    daemons,
    job_record,
    jobs,
    munge,
    network,
    partitions,
    rest,
    scrub,
    shards,
    unreachable,
)
from gpuprov.roles.slurm.backup import controller_name, controller_names, state_folder, state_place
from gpuprov.roles.slurm.enrol import enrol
from gpuprov.roles.slurm.facts import NAME, job_programs, ready_states, slurm_path
from gpuprov.roles.slurm.files import Machine, controller_address, handover_files, render_slurm
from gpuprov.roles.slurm.job_ssh import HOST_KEY, SERVER_FILE, ssh_files
from gpuprov.roles.slurm.qos import RULES as QOS_RULES
from gpuprov.roles.slurm.takeover import take_over
from gpuprov.roles.slurm.units import refuse_shards_of_parts, unit_files
from gpuprov.roles.work.work_place import require_shared
from gpuprov.spec.partitions import partitions_of
from gpuprov.spec.shared_folder import ACCOUNT, ACCOUNT_UID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.provision.role_recipe import Init
    from gpuprov.roles.base import FilesOf, Render, Secret
    from gpuprov.roles.crew import Crew
    from gpuprov.roles.departure import Departure, Job
    from gpuprov.roles.usage import Uses
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.roles.work.job_room import JobRoom
    from gpuprov.roles.work.rest import RestService
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.whole import Member
    from gpuprov.spec.shared_folder import ServiceFolder
    from gpuprov.verify.models import Expectation, Rule


_QUEUE = QueueFolder(
    path=slurm_path("state"),
    user=NAME,
    service="slurmctld",
    arrival=slurm_path("arrival"),
    version="dpkg-query -W -f '${Version}' slurmctld",
    count='jobs=$(squeue -h) && echo "$jobs" | grep -c .',
)


class SlurmRole(ControlledRole):
    """Slurm: its configuration on every node, the controller on one, a munge key that they share."""

    name = NAME
    title = "Slurm"
    controller = "controller"
    controller_title = "Slurm controller"
    has_services = True
    first_network = True
    shares = True
    has_people = True
    scrubs = True
    can_account = True
    recipe = RoleRecipe(
        roles=(NAME, "work"),
        templates=(NAME,),
        brings=("gpuwork", "shapes"),
        requirements=(SHAPES,),
        with_init=(NAME,),
        given={"work": {"work_uid": ACCOUNT_UID}},
        labels={
            munge.LABEL_MUNGE_OWNER: "stat -c %u:%g /etc/munge",
            LABEL_ACCOUNT: f"id -u {ACCOUNT}",
            LABEL_QUEUE: _QUEUE.version,
            rest.LABEL_REST: rest.HAS_REST,
        },
    )
    secret_files = (munge.KEY_FILE, HOST_KEY, rest.TOKEN_KEY)
    marks = MappingProxyType({slurm_path("applied_mark"): "restart Slurm"})
    rules = (
        *accounting.RULES,
        *backup.RULES,
        *network.RULES,
        *partitions.RULES,
        *QOS_RULES,
        *rest.RULES,
        *shards.RULES,
    )
    queue = _QUEUE

    def checks(self) -> tuple[Rule, ...]:
        """That its daemons run, the controller knows the node, a job there sees its GPUs, and what else it can open."""
        from gpuprov.roles.slurm.checks import RULES  # here, for tables of nodes start sooner without

        return RULES

    def controller_name(self, spec: ClusterSpec) -> str:
        """The node on which slurmctld usually runs."""
        return controller_name(spec)

    def controller_names(self, spec: ClusterSpec) -> tuple[str, ...]:
        """That node and its backup."""
        return controller_names(spec)

    def recipe_of(self, spec: ClusterSpec) -> RoleRecipe:
        """With slurmdbd and its database where there is accounting."""
        return accounting.with_accounting(self.recipe) if spec.accounting else self.recipe

    def service_folders(self, spec: ClusterSpec) -> tuple[ServiceFolder, ...]:
        """The state of slurmctld, where two nodes need it, and the figures of accounting."""
        figures = accounting.accounts_folder(spec.name, controller_name(spec)) if spec.accounting else None
        return tuple(filter(None, (state_folder(spec), figures)))

    def outliving_folders(self, cluster: str) -> tuple[ServiceFolder, ...]:
        """The figures of accounting."""
        return (accounting.accounts_folder(cluster),)

    def save_figures(self, driver: Driver, state: ClusterState) -> ServiceFolder | None:
        """Those of accounting."""
        if not accounting.has_accounting(spec_of(state), state, None):
            return None
        accounting.save_figures(driver, self._running_node(state).name)
        return accounting.accounts_folder(state.name)

    def forgets(self, recorded: ClusterSpec, wanted: ClusterSpec) -> bool:
        """Where slurmctld's state would be in another place: it is not taken along; or jobs lose their partition."""
        names = [{one.name for one in partitions_of(spec)} for spec in (recorded, wanted)]
        return state_place(recorded) != state_place(wanted) or not names[0] <= names[1]

    def notes(self, spec: ClusterSpec) -> tuple[str, ...]:
        """What shards are not."""
        return shards.shard_notes(spec)

    def refuse_crew(self, crew: Crew) -> None:
        """Nor has a backup any use on the controller's own host, or a node that is not on Slurm's network.

        Nor do parts of GPUs have shards.
        """
        super().refuse_crew(crew)
        refuse_shards_of_parts(crew.spec, crew.of(NAME))
        network.refuse_apart(crew)
        homes = {member.name: member.host for member in crew.of(NAME)}
        controller, *others = controller_names(crew.spec)
        near = [name for name in others if homes.get(name) and homes[name] == homes.get(controller)]
        if near:
            far = sorted(name for name, home in homes.items() if home != homes[controller])
            way = f"slurm.backup: {far[0]}, which is on {homes[far[0]]}" if far else "slurm.backup: null"
            raise UsageError(
                f"{near[0]} cannot be the backup of Slurm's controller {controller}",
                evidence=f"both are on the host {homes[controller]}, and would be lost together",
                fix=f"in the spec, {way}",
            )

    def read_secret(self, driver: Driver, state: ClusterState) -> bytes:
        """The munge key."""
        controller = controller_name(spec_of(state))
        # the controller first: a key that somebody changed elsewhere is the wrong one
        holders = sorted((node.name for node in state.nodes_of(NAME)), key=lambda name: (name != controller, name))
        return munge.read_key(driver, holders, cluster=state.name) if holders else b""

    def new_secret(self) -> bytes:
        """A munge key."""
        return munge.new_key()

    def gather_files(
        self, driver: Driver, crew: Crew, state: ClusterState, image: ImageState | None, secret: Secret
    ) -> Render:
        """Slurm's configuration, the munge key where its owner is known, and the mark of nodes with slurmctld."""
        controllers = controller_names(crew.spec)
        engine = driver.facts()
        machine = Machine(cpus=engine.cpus, memory_bytes=engine.memory_bytes)
        self.refuse_crew(crew)
        members, records = crew.of(NAME), accounting.has_accounting(crew.spec, state, image)
        serves = rest.can_serve(crew.spec, state.nodes_of(NAME), image)
        conf = render_slurm(crew.spec, members, machine, accounting=records, rest=serves)
        files = (*job_programs(), *scrub.scrub_programs(crew.spec), *conf)
        present = munge.present_owners(state.nodes_of(NAME))
        of_new = munge.find_owner(state.nodes_of(NAME), image)
        key = (secret() or self.new_secret()) if of_new else b""
        ssh = ssh_files(key, crew.of(NAME)) if key else ()
        # the image's slurmctld starts only where this is
        own = (
            File(path=slurm_path("controller_mark"), content=b""),
            *handover_files(crew.spec),
            *(() if records else (job_record.record_program(crew.spec),)),
            *((rest.token_key_file(key),) if key and serves else ()),
        )

        slurmdbd = (
            {controllers[0]: (accounting.render_slurmdbd(crew.spec, controller_address(crew.spec, members)),)}
            if records
            else {}
        )

        def render(member: Member) -> tuple[File, ...]:
            keys = (munge.key_file(key, present.get(member.name, of_new)),) if key else ()
            given = (*files, *unit_files(member), *keys, *ssh, *slurmdbd.get(member.name, ()))
            return (*given, *(own if member.name in controllers else ()))

        return render

    def abandoned(self, driver: Driver, state: ClusterState) -> tuple[str, ...]:
        """Those that are drained with the reason of a process that is gone."""
        controller = self.running_controller(state)
        words = daemons.node_words(driver, controller) if controller else {}
        return tuple(name for name, word in words.items() if word.abandoned)

    def take_out_of_service(self, driver: Driver, state: ClusterState, names: Sequence[str]) -> tuple[str, ...]:
        """Drain them; without a controller no job starts anyhow."""
        controller = self._asked(driver, state)
        return jobs.take_out_of_service(driver, controller, names) if controller else ()

    def jobs(self, driver: Driver, state: ClusterState, departure: Departure) -> tuple[Job, ...]:
        """Every job, also those that wait, where the queue goes; the processes where no controller runs."""
        queue = set(controller_names(spec_of(state))) <= set(departure.lost)
        running = self._asked(driver, state)
        if running:
            return jobs.queued_jobs(driver, running, departure.nodes, queue=queue)
        up = [node.name for node in state.nodes_of(NAME) if node.status != "stopped"]
        return jobs.find_steps(driver, [name for name in up if queue or name in departure.nodes])

    def end_jobs(
        self, driver: Driver, state: ClusterState, departure: Departure, ending: Sequence[Job]
    ) -> tuple[str, ...]:
        """Mark the nodes DOWN, and cancel what that does not end; where the queue goes too, nobody is left to tell."""
        controller = self.running_controller(state)
        if controller is None:
            return ()
        if {node.name for node in state.nodes_of(NAME)} <= set(departure.lost):
            if accounting.has_accounting(spec_of(state), state, None):
                accounting.end_all_jobs(driver, controller)
            return ()
        return jobs.end_jobs(driver, controller, departure.nodes, ending)

    def cancel_jobs(self, driver: Driver, state: ClusterState, ending: Sequence[Job]) -> None:
        """By the controller, which has to run."""
        controller = self._asked(driver, state)
        if controller and ending:
            jobs.cancel_jobs(driver, controller, ending)

    def put_back_in_service(
        self, driver: Driver, state: ClusterState, *, running: Sequence[str] = (), stopped: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Undrain them; where no controller runs, the first run that finds one does it."""
        controller = self._asked(driver, state)
        if controller is None:
            return ()
        up = {node.name for node in state.nodes if node.status == "running"}
        down = {node.name for node in state.nodes} - up
        return jobs.put_back_in_service(driver, controller, running=up | {*running}, stopped=down | {*stopped})

    def _asked(self, driver: Driver, state: ClusterState) -> str | None:
        """The node to ask for jobs: a backup does not wait for a controller that is known to be stopped."""
        controller, usual = self.running_controller(state), state.node(controller_name(spec_of(state)))
        if controller and usual and usual.name != controller and usual.status == "stopped":
            take_over(driver, controller)
        return controller

    def mark_away(
        self, driver: Driver, state: ClusterState, names: Sequence[str], *, host: str, since: str
    ) -> tuple[str, ...]:
        """DOWN, with the host as the reason."""
        controller = self.running_controller(state)
        return unreachable.mark_away(driver, controller, names, host=host, since=since) if controller else ()

    def mark_back(self, driver: Driver, state: ClusterState, names: Sequence[str]) -> tuple[str, ...]:
        """Those with such a reason."""
        controller = self.running_controller(state)
        return unreachable.mark_back(driver, controller, names) if controller else ()

    def can_apply(self, state: ClusterState) -> bool:
        """While a controller runs; whether one on another host does, nobody here knows, and the files are right."""
        nodes, controllers = state.nodes_of(NAME), controller_names(spec_of(state))
        return (
            not nodes or bool(self.running_controller(state)) or any(is_elsewhere(state, name) for name in controllers)
        )

    def apply(self, driver: Driver, crew: Crew, stale: Mapping[str, Sequence[File]], files: FilesOf) -> None:
        """Write the files and restart what reads them."""
        key = slurm_path("munge_key")

        def restart(renewed: Mapping[str, frozenset[str]]) -> None:
            rekeyed = [name for name, paths in renewed.items() if key in paths]
            each(lambda name: restart_well(driver, name, "munge"), rekeyed)
            running = {member.name for member in crew.members}
            controllers = [name for name in controller_names(crew.spec) if name in running]  # others: on another host
            usual = controller_name(crew.spec)
            if usual in running:
                records = any(file.path == slurm_path("slurmdbd") for file in files(usual))
                accounting.restart_accounting(driver, usual, renewed, wanted=records)
            daemons.restart_daemons(driver, controllers, renewed, usual=usual)

        own = (f"{slurm_path('folder')}/", key)
        apply_marked(driver, stale, files, mark=slurm_path("applied_mark"), own=own, restart=restart)
        told = [name for name, lacked in stale.items() if any(file.path == SERVER_FILE for file in lacked)]
        each(lambda name: reload_ssh(driver, name), told)

    def wait_ready(self, driver: Driver, crew: Crew, reporter: Reporter) -> Ready:
        """Until every node takes jobs, and the accounting has people and QOS; without it, Slurm goes on."""
        ready, controller = self._wait_for_daemons(driver, crew, reporter), controller_name(crew.spec)
        if crew.spec.accounting and controller in ready.words:
            enrol(driver, controller, crew.spec, reporter)
        return ready

    def _wait_for_daemons(self, driver: Driver, crew: Crew, reporter: Reporter) -> Ready:
        """Until every node takes jobs; where there is no controller, nobody can be asked.

        Over hosts, the usual controller may begin later than its backup here: whoever waits for both names one.
        """
        names = [member.name for member in crew.of(NAME)]
        usual, spans = controller_name(crew.spec), any(member.host for member in crew.members)
        controllers = (crew.controller,) if crew.controller else (usual,) if spans else controller_names(crew.spec)
        controller = next((name for name in controllers if name in names), None)
        if controller is None:
            return Ready()
        words, released = daemons.wait_ready(driver, controller, names, reporter)
        return Ready(words=words, undone=tuple(RESUMED.format(name) for name in released))

    def states(self, driver: Driver, state: ClusterState) -> dict[str, str]:
        """Slurm's word for each node; empty while no controller runs."""
        controller = self.running_controller(state)
        return {name: word.state for name, word in daemons.node_words(driver, controller).items()} if controller else {}

    def is_ready(self, word: str) -> bool:
        """`*` behind a word marks a node that does not answer."""
        return word in ready_states()

    def forget(self, init: Init) -> str:
        """A copy of the controller is none."""
        return f"{accounting.stop_script(init)}\n{daemons.forget_script(init)}"

    def questions(self, expected: Expectation, *, timeout_s: float) -> dict[str, dict[str, object]]:
        """What the controller says of the node, and what a job there sees."""
        from gpuprov.roles.slurm.questions import ask_slurm  # as above

        return ask_slurm(expected, timeout_s=timeout_s)

    def diagnostics(self) -> Diagnostics:
        """Configuration and logs of each node, and the controller's view of all."""
        folder = slurm_path("folder")
        return Diagnostics(
            node={
                "slurm.conf": f"cat {folder}/slurm.conf",
                "gres.conf": f"cat {folder}/gres.conf",
                "slurm-logs.txt": "tail -n 2000 /var/log/slurm/*.log",
            },
            cluster="sinfo --Node --long; sinfo --list-reasons; scontrol show nodes; squeue --long",
        )

    def job_controller(self, driver: Driver, state: ClusterState) -> JobController:
        """The controller's node, or its backup where that is unreachable."""
        from gpuprov.roles.work.job_controller import JobController  # here, for tables of nodes start sooner without

        node = self._running_node(state)
        require_shared(node, state.name, spans=recorded_whole(state) is not None)
        return JobController(driver=driver, node=node.name, cluster=state.name)

    def _running_node(self, state: ClusterState) -> NodeState:
        node = self.diagnosed_node(state)
        if node.status != "running":
            raise UsageError(
                f"cluster {state.name} takes no jobs now: {node.name} is {node.status}",
                evidence=f"{node.name} runs Slurm's controller",
                fix=f"start it: gpuprov start {node.name}",
            )
        return node

    def uses(self, driver: Driver, state: ClusterState, since: datetime, until: datetime) -> Uses | None:
        """As its accounting knows them, or the record of a controller without it."""
        from gpuprov.roles.slurm.usage import ask_uses  # as in `job_controller`

        spec, controller = spec_of(state), self._running_node(state).name
        if accounting.has_accounting(spec, state, None):
            return ask_uses(driver, controller, since=since, until=until)
        accounts = {person.name: person.account for person in spec.people if person.account}
        return job_record.ask_record(driver, controller, since=since, until=until, accounts=accounts)

    def goes_along(self, spec: ClusterSpec) -> tuple[str, ...]:
        """The record of jobs, where there is no accounting."""
        if spec.accounting:
            return ()
        return ("the GPU hours of jobs of srun and sbatch, as its spec has no accounting",)

    def job_room(self, driver: Driver, state: ClusterState) -> JobRoom:
        """As its configuration says it to Slurm."""
        from gpuprov.roles.slurm.room_for_jobs import find_room  # as in `job_controller`

        return find_room(driver, state)

    def rest(self, state: ClusterState) -> RestService:
        """By the controller's node, or that of its backup."""
        return rest.find_rest(spec_of(state), state.nodes_of(NAME), asked=self._running_node(state))

    def next_steps(self, spec: ClusterSpec, nodes: Sequence[str]) -> tuple[str, ...]:
        """A job on every node, and one with a GPU; where the nodes share a folder, also what is handed in."""
        srun = partial("gpuprov exec {} -- srun {}".format, nodes[0])
        submit = (
            ("gpuprov submit --no-project -- python3 -m smoke_kernels matmul", "gpuprov jobs") if spec.share else ()
        )
        return (srun(f"-N{len(nodes)} hostname"), srun("--gres=gpu:1 python3 -m smoke_kernels matmul"), *submit)
