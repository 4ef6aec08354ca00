"""Which tests run side by side in `make test`, and which ones have the machine to themselves.

The tests of a group run one after the other in one process, and groups run side by side. Modules are one group where
they share a cluster or a place. Tests marked `alone` come afterwards, one after the other: they stop an engine, count
GPUs, or look at what others of the machine do. So do all long ones.
"""

from __future__ import annotations

from tests.e2e.places import PLACES, Place

OF_ONE_CLUSTER = "one cluster"  # the fixture `cluster`: four nodes of Slurm on LXD
MODULES_OF_ONE_CLUSTER = (
    "bare_host",
    "bundle",
    "cluster",
    "endings",
    "engine",
    "exhaustion",
    "gpus",
    "networks",
    "nodes",
    "privilege",
    "refusals",
    "verify",
    "web",
)
ALONE = (
    "exhaustion",  # bounded times, which a wait for the host's lock is not
    "foreign",
    "gpus",  # which GPUs are free
    "kills",  # loose links of the whole machine
    "lock",
    "races",
    "repair",  # a power cut
    "scrub",  # GPUs that nobody else has
    "silent_engine",
    "work_faults",  # kills the engine
)
# Of a module's tests, by what they run on, those that are not long: what differs there from where all of them run.
SAMPLES = {
    ("work", "docker-worker"): (
        "test_what_one_node_writes_the_others_read_and_others_of_the_host_do_not",
        "test_what_a_job_leaves_behind_ends_with_it_and_not_with_another",
        "test_cancel_ends_all_that_a_job_has_started",
        "test_a_job_that_takes_all_processes_is_ended_and_others_go_on",
        "test_a_run_whose_worker_is_killed_runs_again",
        "test_what_waits_for_workers_waits_on_in_a_broker_with_a_new_image",
        "test_the_broker_is_reached_from_nodes_alone_and_its_password_is_nowhere_else",
    ),
    ("work", "lxd-slurm"): (
        "test_what_one_node_writes_the_others_read_and_others_of_the_host_do_not",
        "test_variables_of_nodes_and_of_the_simulator_reach_every_way_in",
        "test_work_without_a_gpu_finds_none",
        "test_what_a_job_leaves_behind_ends_with_it_and_not_with_another",
        "test_hours_of_all_jobs_with_a_gpu_are_counted_once",
        "test_runs_of_a_sweep_and_a_function",
        "test_cancel_ends_all_that_a_job_has_started",
        "test_a_job_that_takes_all_processes_is_ended_and_others_go_on",
        "test_a_job_that_outlives_its_time_limit_has_failed_for_that_reason",
        "test_a_job_that_its_node_has_no_memory_for_is_tried_once_and_says_so",
        "test_slurm_is_told_the_time_limit_and_the_memory",
        "test_a_cluster_without_the_folder_says_what_to_type",
    ),
}
# The longest first.
FIRST = ("fresh_machine", "work", "copies", "twice", OF_ONE_CLUSTER, "docker", "lab")


def group_of(module: str) -> str:
    """The group of a module, `work` for tests/e2e/test_work.py. Pure."""
    if module in MODULES_OF_ONE_CLUSTER:
        return OF_ONE_CLUSTER
    place = PLACES.get(module)
    return next((name for name, other in PLACES.items() if other is place), module)


def is_sampled(module: str, name: str, runs_on: str) -> bool:
    """Whether a test of that name is in `make test` for what it runs on, such as `lxd-slurm`. Pure."""
    return name in SAMPLES.get((module, runs_on), (name,))


def module_of(nodeid: str) -> str:
    """The module of a test by pytest's name of it. Pure."""
    return nodeid.partition("::")[0].rpartition("/test_")[2].removesuffix(".py")


def turn_of(module: str) -> tuple[int, str]:
    """The order of groups, to sort by. Pure."""
    group = group_of(module)
    return (FIRST.index(group) if group in FIRST else len(FIRST), group)


def others_of(group: str) -> list[Place]:
    """The places of other groups, whose objects come and go meanwhile. Pure."""
    own = [place for module, place in PLACES.items() if group_of(module) == group]
    return [place for place in PLACES.values() if place not in own]
