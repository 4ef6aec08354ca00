"""The same commands for a cluster on this machine alone and for one over three hosts: they say and do the same.

What they say is compared without the names of hosts. Where it differs in more, the difference stands here with its
reason, and the test of it fails when it goes away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.fakes.slurm import FakeJob
from tests.fakes.typed_clusters import TypedCluster
from tests.twice import TWICE
from tests.unit.cli.test_twice import NO_CLUSTER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Recording
    from tests.fakes.typed_clusters import Said

pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Differs:
    """What a command says in one of the two cases alone.

    Attributes:
        why: Why it does.
        alone: Lines where the cluster is on this machine alone.
        hosts: Lines where it is over hosts.
        codes: The exit codes, where they differ.
        within: Lines of both cases that match this are not compared.
    """

    why: str
    alone: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    codes: tuple[int, int] | None = None
    within: str = ""


NO_ENGINE_LINES: Final = (
    "error: lxd is not on this",
    "its engines: none",
    "fix: sudo gpuprov prepare --engine lxd",
)
OVERLAY_PLANNED: Final = Differs(
    why="hosts need a network between them", hosts=("create overlay gpvx1c6fb7 between the hosts",)
)
OVERLAY: Final = Differs(
    why="hosts need a network between them; what is done is in other words than the plan",
    hosts=("set overlay gpvx1c6fb7",),
)
OVERLAY_REMOVED: Final = Differs(why="hosts need a network between them", hosts=("removed overlay gpvx1c6fb7",))
OPEN_NETWORK: Final = Differs(
    why="packets leave a host",
    hosts=(
        (
            "warning: the private network of cluster lab is not encrypted between hosts: whoever is on the network "
            "between them can read and forge what nodes send to each other; use a network that only hosts are on: "
            "hosts[].internal_ip"
        ),
    ),
)
FEWER_GPUS: Final = Differs(why="three hosts have 12 GPUs", alone=("6 nodes share 4 GPUs",))
FEWER_GPUS_TOLD: Final = Differs(why="three hosts have 12 GPUs", alone=("shared = 6 nodes share 4 GPUs",))
WHICH_GPUS: Final = Differs(
    why="each host counts its own GPUs", within=r"^\d SIMULATED|(index|label|minor|pci)\b|^195|/dev/nvidia#"
)
REASONS: Final = Differs(why="each host says why its GPUs are simulated, though it is the same", within="^reason = ")
WAY_THERE: Final = Differs(
    why="Ansible reaches nodes of other hosts through these, which have the keys",
    within=r"ansible_ssh|gpuprov_through|gpuprov_host",
)
SHOWN: Final = Differs(
    why="each host counts its own GPUs; processes of a job must find each other by the private network",
    within=r"device /dev/|devices\[\]|fingerprint|SOCKET_IFNAME",
)
HARDWARE: Final = Differs(why="that of the hosts stands beside this machine's", hosts=("a CPU 8 - - - - no driver",))
HOSTS_VERIFIED: Final = Differs(why="there are three", within=r"^3 nodes: ")
NETWORK_VERIFIED: Final = Differs(
    why="a node sees those of its own host alone on the NAT bridge; which devices it may not make depends on its GPU",
    within=r"network-public|counts\.|device-(mknod|nodes)",
)
NO_SMOKE: Final = Differs(
    why="`smoke` looks for nodes on this machine alone",
    alone=(
        "NODE GPU VERDICT SIZE REPEATS DIGEST RATE SECONDS",
        "c001 0 fail SIMULATED - - - - -",
        "c001: the kernels printed no result: exit status 127",
        "fix: gpuprov exec c001 -- python3 -m smoke_kernels matmul anneal membw --quick",
    ),
    hosts=NO_ENGINE_LINES,
    codes=(1, 3),
)
GOES_TO: Final = Differs(why="a host is chosen", hosts=("c007 goes to",))
NAMED_NODE: Final = Differs(
    why="a host is chosen; each has last addresses of its own for nodes without numbers",
    alone=("created node web 10.0.3.253 role plain, no GPU",),
    hosts=("created node web 10.0.3.251 role plain, no GPU", "web goes to"),
)
ABSENT_NODE: Final = Differs(
    why="over hosts, the evidence is where was looked, not which nodes there are",
    alone=("nodes: c000", "nodes: c001", "nodes: c002"),
    hosts=("neither nor on hoff, hinton,",),
)
ABSENT_SOURCE: Final = Differs(why=ABSENT_NODE.why, alone=(*ABSENT_NODE.alone, "nodes: c008"), hosts=ABSENT_NODE.hosts)
REFUSAL_TOLD: Final = Differs(
    why="over hosts, a refusal has the document of a result in which nothing was changed, not that of an error",
    alone=("schema = gpuprov.error/v1",),
    hosts=("schema = gpuprov.outcome/v1", "changed = []", "unchanged = True"),
)
ABSENT_VERIFIED: Final = Differs(
    why="two texts for one refusal",
    alone=(
        "error: the cluster lab has no node c009",
        "fix: gpuprov verify --cluster lab c000",
        *(f"its nodes: c00{number}" for number in range(3)),
    ),
    hosts=("error: no of cluster lab has a node c009", "fix: gpuprov cluster status lab", "c000, c001, c002"),
)
NOTHING_TO_VERIFY: Final = Differs(
    why="over hosts, the evidence is where was looked, not which clusters there are",
    alone=("fix: gpuprov verify --cluster lab", "other clusters: lab"),
    hosts=("fix: gpuprov list", "neither nor on hoff, hinton,"),
)
NO_FOLDER: Final = Differs(
    why="several hosts must have the folder first",
    alone=("fix: gpuprov cluster up --share",),
    hosts=("fix: gpuprov cluster up --share FOLDER",),
)
SERVICE: Final = Differs(
    why="two texts for one refusal",
    alone=("error: c000 is the Slurm controller of cluster lab", "its other nodes: c001, c002"),
    hosts=("error: c000 has the Slurm service of cluster lab", "its other nodes: c001", "its other nodes: c002"),
)
GPUS_LOOKED_AT: Final = Differs(
    why="over hosts, all is looked at before it is asked whether nodes may be lost",
    hosts=("warning: GPUs are SIMULATED: requested by --gpu-mode simulated",),
)
SHRINKING_UNDER_A_JOB: Final = Differs(
    why="over hosts, the host of the node refuses, which cannot ask Slurm's controller whose the job is",
    alone=("error: there are jobs on c002", "job 7 of alice (train) on c002"),
    hosts=(
        "error: nothing was changed: hosts refuse their part: (1 of 3 hosts)",
        "there are jobs on c002: job 7 of ? (?) on c002",
    ),
)
FIRST_TO_REFUSE: Final = Differs(
    why="the first host that has nodes refuses for its own",
    alone=("error: there are jobs on c001", "error: there are jobs on c002"),
)
FORESEEN_BY_THE_FIRST: Final = Differs(
    why=FIRST_TO_REFUSE.why,
    alone=tuple(f"there are jobs on c00{number}: job 7 of alice (train) on c002" for number in (1, 2)),
)
SECOND_CLUSTER: Final = Differs(
    why="hosts need a network between them",
    hosts=(
        "set overlay gpvx313f75",
        *(line.replace("lab", "two") for line in OPEN_NETWORK.hosts),
    ),
)
PRUNING_ASKED: Final = Differs(
    why="over hosts, who types --prune is asked about the nodes that it removes",
    alone=("remove node web",),
    hosts=("error: /SPEC says less than cluster lab has: this would be lost",),
    codes=(0, 2),
    within="^(?!error: |remove node )",
)
TOO_MANY_GPUS: Final = Differs(
    why="over hosts, that no host has so many is told as if they were taken",
    alone=(
        "error: there are fewer than 99 GPUs",
        "fix: use indexes, UUIDs or PCI addresses, such as 0,1 or gpu0, or a count, all or none",
    ),
    within="^(this has|there are fewer than 99 GPUs [(]this has) 0 = GPU",
    hosts=(
        "error: cluster lab cannot get 1 more node: its hosts have room for 0",
        "fix: add a to hosts in the spec, or free GPUs: gpuprov gpus",
    ),
)
NO_RENEWING: Final = Differs(
    why="over hosts, --renew is refused",
    alone=(
        "nothing to do: the cluster matches its spec",
        "warning: GPUs are SIMULATED: requested by --gpu-mode simulated",
    ),
    hosts=(
        "error: nodes of cluster lab are not replaced by --renew: it spans hosts",
        "hosts: hoff, hinton,",
        "fix: replace them one by one: gpuprov rm NODE; gpuprov cluster up",
    ),
    codes=(0, 2),
)
# What is shown while it works; over hosts, none is shown for single nodes
PHASES: Final[dict[str, tuple[str, str]]] = {
    "cluster plan -f SPEC": ("", "look plan"),
    "cluster up -f SPEC --no-verify": ("plan networks nodes slurm", "look plan hosts ready"),
    "cluster up --no-verify": ("plan slurm", "look plan"),
    "verify": ("verify", "verify"),
    "create-node c007": ("plan node slurm", ""),
    "stop c001": ("stop", ""),
    "start c001": ("start slurm", ""),
    "snapshot c001 before": ("snapshot", ""),
    "restore c001 before": ("restore slurm", ""),
    "rm c007": ("remove slurm", ""),
    "cluster down --yes": ("nodes networks", ""),
}


class Both:
    """Types each command for both clusters, and holds what is said for one to what is said for the other."""

    def __init__(self, alone: TypedCluster, three: TypedCluster) -> None:
        self.alone, self.three = alone, three

    def type(self, words: str, *differs: Differs, code: int = 0, says: str = "") -> Said:
        """Both end with `code` and say `says`; returns what is said of this machine."""
        alone, three = self.alone.type(words), self.three.type(words)
        codes = next((one.codes for one in differs if one.codes), (code, code))
        assert (alone.code, three.code) == codes, sorted(alone.lines | three.lines)
        ignored = [one.within for one in differs if one.within]

        def compared(said: Said) -> set[str]:
            return {line for line in said.lines if not any(re.search(pattern, line) for pattern in ignored)}

        assert sorted(compared(alone) - compared(three)) == sorted(line for one in differs for line in one.alone), words
        assert sorted(compared(three) - compared(alone)) == sorted(line for one in differs for line in one.hosts), words
        assert any(says in line for line in alone.lines & three.lines) or not says, words
        return alone

    def queue(self, *jobs: FakeJob) -> None:
        """Have Slurm run these."""
        for world in (*self.alone.worlds, *self.three.worlds):
            world.slurm.queue = list(jobs)


@pytest.fixture
def both(tmp_path: Path, recording: Recording, logs: Path) -> Both:
    """No cluster yet."""
    assert logs
    return Both(*(TypedCluster(tmp_path / str(hosts), recording, hosts=hosts) for hosts in (1, 3)))


@pytest.fixture
def three(both: Both) -> TypedCluster:
    """The one over hosts alone."""
    return both.three


@pytest.fixture
def lab(both: Both) -> Both:
    """c000 with Slurm's controller, c001 and c002, each on a host of its own where there are three."""
    for cluster in (both.alone, both.three):
        assert cluster.type("cluster up -f SPEC --no-verify").code == 0
    return both


def test_a_plan_tells_what_up_makes_and_then_nothing(both: Both) -> None:
    node = "create node c002 10.0.3.4 role slurm, 1 GPU shared (simulated)"
    both.type("cluster plan -f SPEC", OVERLAY_PLANNED, says=node)
    both.type("cluster up -f SPEC --no-verify", OVERLAY, OPEN_NETWORK, says=node)
    both.type("cluster plan -f SPEC", says="nothing to do: the cluster matches its spec")
    both.type("--json cluster plan", says="plan = []")


def test_up_shows_its_nodes_and_is_unchanged_the_second_time(lab: Both) -> None:
    row = "c001 running 10.0.3.3 10.0.5.2 nvidia# SIMULATED shared slurm idle ok"
    lab.type("cluster up --no-verify", says="unchanged")
    lab.type("cluster up -f SPEC -n 6 --no-verify", OPEN_NETWORK, FEWER_GPUS, says=row)
    lab.type("--json cluster up --no-verify", FEWER_GPUS, FEWER_GPUS_TOLD, says="unchanged = True")


def test_up_verifies(lab: Both) -> None:
    lab.type("cluster up", says="unchanged")


def test_questions_have_one_answer(lab: Both) -> None:
    lab.type("cluster status", says="c002 running 10.0.3.4 10.0.5.3 nvidia# SIMULATED shared slurm idle ok")
    lab.type("--json cluster status", says="nodes[c002].slurm = idle")
    lab.type("list", says="c002 lab lxd slurm running 10.0.3.4 10.0.5.3 1")
    lab.type("--json list", says="nodes[c000].status = running")
    lab.type("gpus", WHICH_GPUS, says="0 SIMULATED NVIDIA H100 80GB HBM3 79.6 GiB 0 0000:51:00.0 off")
    lab.type("--json gpus", WHICH_GPUS, REASONS, says="gpus[].holders[c002].cluster = lab")
    lab.type("inventory --graph", says="| |--c002")
    lab.type("inventory", WAY_THERE, WHICH_GPUS)
    lab.type("--json inventory", WAY_THERE, WHICH_GPUS, says="inventory.cluster_lab.hosts[] = c002")
    lab.type("hardware", HARDWARE, says="c002 - - - - - - python3: not found")
    lab.type("--json hardware", says="nodes[c002].reason = python3: not found")


def test_questions_about_a_cluster_that_is_nowhere(both: Both) -> None:
    both.type("cluster status other", code=2, says="create it: gpuprov cluster up --name other")
    both.type("cluster list", says="no clusters; create one: gpuprov cluster up -n 4")
    both.type("list", says="no nodes; create some: gpuprov cluster up -n 4")
    both.type("gpus", says="free -")
    both.type("inventory --graph", says="|--@ungrouped:")


def test_verbs_on_one_node_find_it(lab: Both) -> None:
    lab.type("show c001", SHOWN, says="address eth1 10.0.5.2/24")
    lab.type("--json show c001", SHOWN, says="node.status = running")
    lab.type("logs c001")
    lab.type("--json logs c001", says="log = c001 booted")
    lab.type("exec c001 -- true")
    lab.type("expose c001 8080 --port 17003", says="is forwarded to c001:8080")
    lab.type("--json expose c001 8080 --port 17003", says="unchanged = True")
    lab.type("unexpose c001 17003", says="is no longer forwarded")
    lab.type("unexpose c001 17003", says="unchanged")
    lab.type("smoke matmul c001", NO_SMOKE)
    lab.type("jobs", NO_FOLDER, code=2, says="error: cluster lab has no shared folder for jobs")


def test_verify_passes_and_names_the_check_that_fails(lab: Both) -> None:
    lab.type("verify", HOSTS_VERIFIED, says="c001 pass SIMULATED 1 SIMULATED pass skip pass pass pass pass pass pass")
    lab.type("--json verify", NETWORK_VERIFIED, says="nodes[c001].verdict = pass")
    for cluster in (lab.alone, lab.three):
        cluster.broken = {"c001"}
    lab.type("verify", HOSTS_VERIFIED, code=1, says="c001: nvml: nvml-uuids: fail: missing: GPU; not held: GPU-other")
    lab.type("--json verify", NETWORK_VERIFIED, code=1, says="nodes[c001].checks[nvml-uuids].status = fail")


def test_nodes_stop_and_start(lab: Both) -> None:
    for words, done in (("stop c001", "stopped c001"), ("start c[001-002]", "started c001")):
        lab.type(words, says=done)
        lab.type(words, says="unchanged")
        lab.type(f"--json {words}", says="unchanged = True")
        lab.type("cluster status")


def test_snapshots_are_taken_and_restored(lab: Both) -> None:
    lab.type("snapshot c001 before", says="took snapshot before of c001")
    lab.type("snapshot c001 before", says="unchanged")
    lab.type("restore c001 before", says="restored c001 to before")
    lab.type("restore c001 other", code=2, says="error: c001 has no snapshot other")
    lab.type("--json restore c001 other", REFUSAL_TOLD, code=2, says="error.evidence = snapshots: before")


def test_a_removed_node_is_made_again_by_up(lab: Both) -> None:
    lab.type("rm c001", says="removed c001")
    lab.type("rm c001", says="unchanged")
    lab.type("cluster plan", says="create node c001 10.0.3.3 role slurm, 1 GPU shared (simulated)")
    lab.type(
        "cluster up --no-verify", OPEN_NETWORK, says="create node c001 10.0.3.3 role slurm, 1 GPU shared (simulated)"
    )
    lab.type("--json cluster status", says="nodes[c001].health = ok")
    lab.type("rm c000", SERVICE, code=2, says="fix: remove the whole cluster: gpuprov cluster down lab")


def test_a_node_is_created_once(lab: Both) -> None:
    lab.type(
        "create-node c007 --gpus 1", GOES_TO, says="created node c007 10.0.3.9 role slurm, 1 GPU shared (simulated)"
    )
    lab.type("create-node c007 --gpus 1", GOES_TO, says="unchanged")
    lab.type("cluster plan", says="nothing to do: the cluster matches its spec")
    lab.type("--json cluster plan", says="plan = []")
    lab.type("cluster status", says="c007 running 10.0.3.9 10.0.5.8 nvidia# SIMULATED shared slurm idle ok")


def test_a_node_is_cloned_once_it_is_stopped(lab: Both) -> None:
    lab.type("clone c001 c008", code=2, says="error: c001 is running")
    lab.type("stop c001")
    lab.type("clone c001 c008", says="created node c008")
    lab.type("clone c001 c008", says="unchanged")
    lab.type("clone c009 c010", ABSENT_SOURCE, code=2, says="error: there is no node c009")


def test_people_come_into_the_nodes_of_all_hosts_and_go(lab: Both) -> None:
    lab.type("person add ann --gpus 2", OPEN_NETWORK, says="add people: ann (10001, gpus: 2)")
    lab.type("person add ann --gpus 2", says="unchanged")
    lab.type("person list", says="ann 10001 - 2 0 /home/ann")
    for cluster in (lab.alone, lab.three):
        assert accounts_of(cluster) == {b"ann:x:10001:10001::/home/ann:/bin/bash\n"}
    lab.type("person rm anne", says="cluster lab has nobody called anne; did you mean ann?")
    lab.queue(FakeJob(id="7", nodes="c002", user="ann"))
    lab.type("person rm ann", code=2, says="error: ann has jobs in cluster lab")
    lab.queue()
    lab.type("person rm ann", OPEN_NETWORK, says="remove people: ann (10001)")
    lab.type("person list", says="nobody; add somebody: gpuprov person add ann --key FILE")
    for cluster in (lab.alone, lab.three):
        assert accounts_of(cluster) == {b""}


def accounts_of(cluster: TypedCluster) -> set[bytes]:
    """What all nodes on all hosts have of people."""
    nodes = [node for world in cluster.worlds for node in world.engine.nodes.values()]
    assert len(nodes) == 3
    return {node.files["/var/lib/extrausers/passwd"].content for node in nodes}


def test_a_file_that_says_less_takes_nothing_unasked(lab: Both) -> None:
    lab.type(
        "cluster up -f LESS --no-verify",
        GPUS_LOOKED_AT,
        code=2,
        says="error: /LESS says less than cluster lab has: this would be lost",
    )
    lab.type("cluster plan -f LESS", says="remove node c002")
    lab.type("cluster status", says="c002 running")
    lab.type("cluster up -f LESS --no-verify --yes", OPEN_NETWORK, says="remove node c002")
    lab.type("cluster up -f LESS --no-verify", says="unchanged")


def test_nothing_is_taken_from_a_job(lab: Both) -> None:
    lab.queue(FakeJob(id="7", nodes="c002"))
    for words in ("stop c002", "rm c002"):
        lab.type(words, code=2, says="error: there are jobs on c002")
    lab.type(
        "cluster up -n 2 --no-verify",
        SHRINKING_UNDER_A_JOB,
        code=2,
        says="fix: repeat the command with --drain",
    )
    lab.type("cluster down --yes", FIRST_TO_REFUSE, code=2, says="error: there are jobs on c000")
    lab.type(
        "cluster down",
        FORESEEN_BY_THE_FIRST,
        code=2,
        says="fix: gpuprov cluster down lab --yes, with --drain to wait for the jobs, or with --force to end them",
    )
    lab.type("cluster status", says="c002 running")
    lab.queue()
    lab.type("stop c002", says="stopped c002")


def test_a_mistyped_node_is_refused(lab: Both) -> None:
    for verb in ("stop c009", "start c009", "snapshot c009 s", "restore c009 s"):
        lab.type(verb, ABSENT_NODE, code=2, says="error: there is no node c009")
    for verb in ("exec c009 -- true", "ssh c009 true", "show c009", "logs c009", "expose c009 80", "cp c009:/x y"):
        lab.type(verb, ABSENT_NODE, code=2, says="error: there is no node c009")
    lab.type("rm c009", says="there is no node c009")


def test_other_mistyped_words_are_refused(lab: Both) -> None:
    lab.type("verify c009", ABSENT_VERIFIED, code=2)
    lab.type("verify --cluster other", NOTHING_TO_VERIFY, code=2)
    lab.type("verify --cluster other --watch 1", NOTHING_TO_VERIFY, code=2)
    lab.type("inventory --host c009", code=2, says="error: the inventory has no c009")
    for words in ("stop BAD", "cluster status BAD", "cluster down BAD", "cluster up -n three", "create-node c_7"):
        lab.type(words, code=2, says="error: ")
    for words in ("cluster up -n 0", "cluster plan -n 254"):
        lab.type(words, code=2, says="(allowed: 1 to 253)")
    lab.type("cluster up --no-verify", says="unchanged")


def test_down_asks_and_removes_everything_once(lab: Both) -> None:
    lab.type("snapshot c001 before")
    lab.type("cluster down", code=2, says="fix: gpuprov cluster down lab --yes")
    lab.type("--json cluster status", says="nodes[c002].status = running")
    lab.type("cluster down --yes", OVERLAY_REMOVED, says="removed node c002")
    lab.type("cluster down --yes", says="unchanged")
    lab.type("list", says="no nodes")


def test_a_plain_cluster(both: Both) -> None:
    both.type("cluster up -f SPEC --role plain --no-verify", OVERLAY, OPEN_NETWORK, says="role plain")
    both.type("cluster up --no-verify", says="unchanged")
    both.type("verify", HOSTS_VERIFIED, says="c002 pass SIMULATED")
    both.type("cluster down --yes", OVERLAY_REMOVED, says="removed node c002")


def test_a_second_cluster_has_names_and_networks_of_its_own(lab: Both) -> None:
    lab.type("cluster up -f SPEC --name two --no-verify", SECOND_CLUSTER)
    lab.type("list", says="two-002 two lxd slurm running 10.0.7.4 10.0.9.3 1")
    lab.type("cluster up --name two --no-verify", says="gpuprov exec two-000 -- srun -N3 hostname")
    lab.type("cluster down lab --yes", OVERLAY_REMOVED, says="removed node c000")
    lab.type("cluster status two", says="two-002 running 10.0.7.4 10.0.9.3 nvidia# SIMULATED shared slurm idle ok")


def test_orders_that_cannot_be(lab: Both) -> None:
    lab.type("cluster up --bridge gpbr7 --no-verify", code=2, says="fix: omit --bridge; or remove the cluster first")
    lab.type("cluster up --engine docker --no-verify", code=3, says="error: docker is not installed")
    lab.type("cluster plan --renew", NO_RENEWING)
    lab.type("create-node c007 --gpus 99", TOO_MANY_GPUS, code=2)
    lab.type("create-node web --gpus 0 --role plain", NAMED_NODE)
    lab.type("cluster up -f SPEC --prune --no-verify", PRUNING_ASKED)


def test_what_is_shown_meanwhile(both: Both) -> None:
    for words, phases in PHASES.items():
        said = both.alone.type(f"-v {words}"), both.three.type(f"-v {words}")
        assert [one.code for one in said] == [0, 0], words
        assert tuple(" ".join(one.phases) for one in said) == phases, words


# About this machine alone, as `gpus` is with the options that it has there; files are copied in real nodes
# alone; containers of `run` over hosts are in tests/unit/cli/test_run.py
NEAR: Final = frozenset({"image", "explain", "completion", "gpus", "cp", "run", "mig"})
OVER_HOSTS: Final = [verb for verb, twice in TWICE.items() if "fake" in twice.where and NEAR.isdisjoint(verb.split())]


@pytest.mark.parametrize("verb", OVER_HOSTS)
def test_the_second_run_over_hosts(verb: str, three: TypedCluster) -> None:
    """As tests/unit/cli/test_twice.py has it of this machine alone."""
    twice = TWICE[verb].with_names({"cluster": "lab", "p": "c", "spec": three.file("SPEC"), "play": ""})
    for argv in (("cluster", "up", "-f", three.file("SPEC"), "--no-verify"), *twice.before):
        assert three.run(argv).code == 0, argv
    at_first = three.dump()
    first = three.run(("--json", *twice.argv))
    then = three.dump()
    second = three.run(("--json", *twice.argv))
    assert three.dump() == then
    assert (first.code, second.code) == (0, 0), sorted(first.lines | second.lines)
    if twice.kind == "reads":
        assert then == at_first
    if twice.kind == "changes":
        assert "unchanged = False" in first.lines
    if twice.kind in ("changes", "ensures"):
        assert "unchanged = True" in second.lines


def test_what_is_no_clusters_name_is_refused_before_hosts_are_asked(three: TypedCluster) -> None:
    for argv in NO_CLUSTER:
        for name in ("", "..", "/no/such"):
            said = three.run([part.format(name=name) for part in argv])
            assert said.code == 2, argv
            assert f"error: {name!r} is not a valid cluster name" in said.lines
    assert three.hosts.asked == []
