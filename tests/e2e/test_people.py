"""Two people on one cluster, and one of a directory: accounts, homes, jobs of their own, and ssh where these run."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait
from gpuprov.spec.people import account_gid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

PEOPLE = ("ann", "bob")
SPEC = """\
slurm: {{login: {first}}}
jobs: {{submit_as: true}}
people:
  - {{name: ann, uid: 10001, keys: ["{ann}"], account: vision}}
  - {{name: bob, uid: 10002, keys: ["{bob}"], account: vision}}
  - {{name: dora, account: vision, gpus: 1}}
"""
# The directory is a pair of files: sssd has a provider for these, and needs no server then
DIRECTORY = """\
[sssd]
domains = site

[domain/site]
id_provider = files
pwfield = *
passwd_files = /etc/site/passwd
group_files = /etc/site/group
ldap_default_authtok = hunter2hunter2
"""
VISION = account_gid("vision")
DORA_IS = f"uid=20001(dora) gid=20001(dora) groups=20001(dora),{VISION}(vision)"
DORA = "dora:x:20001:20001:Dora:/shared/home/dora:/bin/bash"
PARAMS = "param2requests = {'lr': [0.1]}\nparam2default = {'lr': 0.1}\n"
JOB = "def main(param2val):\n    return {'loss': [param2val['lr']]}\n"
OPTIONS = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "LogLevel=ERROR")


class Lab:
    """A cluster of two nodes, to the first of which people log in."""

    def __init__(self, gpuprov: Gpuprov, place: Place, folder: Path) -> None:
        self.gpuprov, self.place, self.folder = gpuprov, place, folder
        self.first, self.second = place.node(0), place.node(1)
        self.here = ("--cluster", place.cluster)
        self.site = folder / "site"

    def make_key(self, name: str) -> str:
        path = self.folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@laptop", "-f", path], check=True)
        return path.with_suffix(".pub").read_text().strip()

    def ssh(self, name: str, node: int, command: str, *, key: str = "") -> subprocess.CompletedProcess[str]:
        options = [word for option in OPTIONS for word in ("-o", option)]
        argv = ["ssh", "-i", str(self.folder / (key or name)), *options, f"{name}@{self.place.address(0, node + 2)}"]
        return subprocess.run([*argv, command], capture_output=True, text=True, check=False, timeout=120)

    def said(self, name: str, command: str) -> str:
        result = self.ssh(name, 0, command)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def in_node(self, *argv: str) -> str:
        return self.gpuprov.in_node(self.first, *argv).strip()

    def wait_for_job(self, job: str, word: str) -> None:
        wait = Wait(what=f"job {job}", timeout_s=60, fix="squeue", interval_s=0.5)
        look = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
        wait.until(lambda: self.in_node(*look), lambda found: found == word)


@pytest.fixture(scope="module")
def lab(
    gpuprov: Gpuprov,
    place: Place,
    lxc: object,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lab]:
    made = Lab(gpuprov, place, tmp_path_factory.mktemp("keys"))
    keys = {name: made.make_key(name) for name in PEOPLE}
    made.make_key("dora")
    made.site.mkdir(0o755)
    (made.site / "passwd").write_text(f"{DORA}\n")
    (made.site / "group").write_text("dora:x:20001:\n")
    mount = f"mounts: [{{source: {made.site}, target: /etc/site, read_only: true}}]"
    file = gpuprov.folder / "people.yaml"
    spec = place.spec(nodes=mount, gpus="per_node: 1", share="true")
    (gpuprov.folder / "sssd.conf").write_text(DIRECTORY)
    file.write_text(f"sssd: sssd.conf\n{spec}{SPEC.format(first=made.first, **keys)}")
    done = gpuprov("cluster", "up", "-f", str(file))
    assert "hunter2" not in done.stdout + done.stderr  # verified: the checks `people` and `sssd` pass
    yield made
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


def test_each_has_the_same_number_and_no_password_in_all_nodes(lab: Lab) -> None:
    for node in (lab.first, lab.second):
        assert lab.gpuprov.in_node(node, "id", "-u", "ann").strip() == "10001"
        assert lab.gpuprov.in_node(node, "getent", "shadow", "ann", "bob").split() == ["ann:*:::::::", "bob:*:::::::"]
    assert lab.in_node("stat", "-c", "%U %G %a", "/shared/home/ann", "/shared/accounts/vision").splitlines() == [
        "ann ann 700",
        "root vision 2770",
    ]
    assert lab.in_node("stat", "-c", "%U %a", "/etc/gpuprov/people/keys") == "root 600"


def test_keys_of_the_spec_alone_let_people_in(lab: Lab) -> None:
    assert lab.said("ann", "id -un; pwd").split() == ["ann", "/shared/home/ann"]
    assert lab.ssh("ann", 0, "true", key="bob").returncode == 255
    lab.said("ann", f"mkdir -p .ssh; echo '{(lab.folder / 'bob.pub').read_text().strip()}' >.ssh/authorized_keys")
    assert lab.ssh("ann", 0, "true", key="bob").returncode == 255


def test_files_of_one_are_closed_to_the_other_and_those_of_the_account_are_not(lab: Lab) -> None:
    lab.said("ann", "umask 0; echo 42 >answer; echo 43 >/shared/accounts/vision/ours")
    assert "Permission denied" in lab.ssh("bob", 0, "cat /shared/home/ann/answer").stderr
    assert "Permission denied" in lab.ssh("bob", 0, "ls /shared").stderr
    assert lab.said("bob", "cat /shared/accounts/vision/ours") == "43"
    assert lab.said("bob", "stat -c %G /shared/accounts/vision/ours") == "vision"


def test_jobs_and_processes_of_one_are_closed_to_the_other(lab: Lab) -> None:
    job = lab.said("ann", f"sbatch --parsable -w {lab.first} --output=out --wrap 'echo $$ >pid; exec sleep 654321'")
    lab.wait_for_job(job, "RUNNING")
    assert job in lab.said("ann", "squeue -h -o %i").split()
    assert lab.said("bob", "squeue -h -o %i") == ""
    assert "denied" in lab.ssh("bob", 0, f"scancel {job}").stderr
    process = lab.in_node("pgrep", "-u", "ann", "-f", "^sleep 654321").split()[0]
    assert lab.said("bob", "pgrep -u ann || echo none") == "none"
    for path in ("environ", "cmdline", "mem"):
        assert lab.ssh("bob", 0, f"cat /proc/{process}/{path}").returncode != 0
    assert lab.ssh("bob", 0, f"kill {process}").returncode != 0
    lab.wait_for_job(job, "RUNNING")
    lab.said("ann", f"scancel {job}")


def test_ssh_leads_to_a_node_only_where_ones_job_runs(lab: Lab) -> None:
    assert lab.ssh("ann", 1, "true").returncode == 255
    job = lab.said("ann", f"sbatch --parsable -w {lab.second} --output=out --wrap 'sleep 600'")
    lab.wait_for_job(job, "RUNNING")
    assert lab.ssh("ann", 1, "hostname").stdout.strip() == lab.second
    assert lab.ssh("bob", 1, "true").returncode == 255
    lab.said("ann", f"scancel {job}")
    wait = Wait(what="the door to close", timeout_s=60, fix="squeue", interval_s=0.5)
    wait.until(lambda: lab.ssh("ann", 1, "true").returncode, lambda code: code == 255)


def test_whoever_may_use_the_engine_acts_for_ann(lab: Lab) -> None:
    submit = ("submit", *lab.here, "--as", "ann", "--no-project", "--wait", "--")
    lab.gpuprov(*submit, "sh", "-c", "id -un; pwd; echo $HOME; cat /shared/home/bob/x", expect=1)
    job = lab.gpuprov.json("jobs", *lab.here, "--as", "ann")["jobs"][-1]
    assert job["state"] == "failed"  # its last command was refused
    logged = lab.gpuprov("jobs", "logs", job["id"], *lab.here, "--as", "ann").stdout
    assert logged.splitlines()[0] == "ann"
    assert "Permission denied" in logged
    shown = lab.gpuprov.json("jobs", "show", job["id"], *lab.here, "--as", "ann")
    assert shown["jobs"][0]["submitter"]["name"]
    assert lab.said("ann", f"stat -c %U jobs/{job['id']}/submitter.json") == "ann"
    assert "Permission denied" in lab.ssh("bob", 0, f"cat /shared/home/ann/jobs/{job['id']}/order.json").stderr
    assert lab.gpuprov.json("jobs", *lab.here)["jobs"] == []
    lab.gpuprov("jobs", *lab.here, "--as", "bobby", expect=2)


def test_a_grid_of_ann_is_hers_and_comes_back(lab: Lab) -> None:
    project = lab.folder / "Project"
    (project / "src").mkdir(parents=True)
    for name, text in (("params.py", PARAMS), ("job.py", JOB)):
        (project / "src" / name).write_text(text)
    asked = ("--as", "ann", *lab.here)
    submitted = lab.gpuprov.json("grid", "run", str(project), "--first-only", *asked)
    lab.gpuprov("jobs", "wait", submitted["id"], *asked)
    assert lab.gpuprov.json("grid", "pull", str(project), *asked)["runs"] == submitted["runs"]
    assert lab.in_node("stat", "-c", "%U", "/shared/home/ann/grids/Project") == "ann"
    assert "Permission denied" in lab.ssh("bob", 0, "ls /shared/home/ann/grids").stderr


def test_people_see_no_jobs_of_the_account(lab: Lab) -> None:
    lab.gpuprov("submit", *lab.here, "--no-project", "--wait", "--", "true")
    assert "Permission denied" in lab.ssh("ann", 0, "ls /shared/jobs").stderr


def test_nobody_goes_who_has_jobs_and_whoever_goes_is_gone(lab: Lab) -> None:
    lab.gpuprov("person", "add", "carl", *lab.here, "--key", str(lab.folder / "bob.pub"))
    job = lab.ssh("carl", 0, "echo mine >mine; sbatch --parsable --output=out --wrap 'sleep 600'", key="bob")
    lab.wait_for_job(job.stdout.strip(), "RUNNING")
    refused = lab.gpuprov("person", "rm", "carl", *lab.here, expect=2)
    assert f"{job.stdout.strip()} of carl" in refused.stderr
    lab.gpuprov("person", "rm", "carl", *lab.here, "--force")
    lab.gpuprov("exec", lab.second, "--", "id", "carl", expect=1)
    assert lab.ssh("carl", 0, "true", key="bob").returncode == 255
    assert lab.in_node("stat", "-c", "%u %a", "/shared/home/carl") == "0 700"
    lab.gpuprov("person", "add", "carl", *lab.here, "--uid", "10003", "--key", str(lab.folder / "bob.pub"))
    assert lab.ssh("carl", 0, "cat mine", key="bob").stdout == "mine\n"
    assert lab.gpuprov.json("cluster", "plan", "--name", lab.place.cluster)["plan"] == []


def test_what_differs_in_a_node_is_found_and_repaired(lab: Lab) -> None:
    lab.gpuprov.in_node(lab.second, "rm", "/etc/gpuprov/people/keys")
    lab.gpuprov.in_node(lab.second, "sed", "-i", "/^bob/d", "/var/lib/extrausers/passwd")
    said = lab.gpuprov("verify", *lab.here, expect=1).stdout
    assert "people: fail: bob has no account; their keys are not those of the spec" in said
    assert f"renew people on {lab.second}" in lab.gpuprov("cluster", "up", "--name", lab.place.cluster).stdout


def test_five_hundred_people_come_and_go(lab: Lab) -> None:
    file = lab.gpuprov.folder / "people.yaml"
    before = file.read_text()
    more = "".join(f"  - {{name: p{number}, uid: {11000 + number}, account: vision}}\n" for number in range(500))
    file.write_text(before + more)
    lab.gpuprov("cluster", "up", "-f", str(file), "--yes")  # verified
    assert lab.gpuprov.in_node(lab.second, "id", "-u", "p499").strip() == "11499"
    assert lab.in_node("sh", "-c", "ls /shared/home | wc -l") == "503"  # carl has left his
    assert len(lab.gpuprov.json("person", "list", *lab.here)["people"]) == 503
    file.write_text(before)
    lab.gpuprov("cluster", "up", "-f", str(file), "--yes")
    lab.gpuprov("exec", lab.second, "--", "id", "p499", expect=1)
    assert lab.in_node("stat", "-c", "%u %a", "/shared/home/p499") == "0 700"


def test_people_of_a_directory_are_known_in_all_nodes_and_its_file_to_root_alone(lab: Lab) -> None:
    for node in (lab.first, lab.second):
        assert lab.gpuprov.in_node(node, "id", "dora").strip() == DORA_IS
        assert lab.gpuprov.in_node(node, "getent", "passwd", "dora").split(":")[5] == "/shared/home/dora"
        assert lab.gpuprov.in_node(node, "stat", "-c", "%U %a", "/etc/sssd/sssd.conf").strip() == "root 600"
    shown = lab.gpuprov("cluster", "spec", lab.place.cluster).stdout
    assert f"sssd: {lab.gpuprov.folder / 'sssd.conf'}" in shown
    assert lab.gpuprov.json("cluster", "plan", "--name", lab.place.cluster)["plan"] == []


def test_people_of_a_directory_run_jobs_and_log_in_where_these_run(lab: Lab) -> None:
    lab.gpuprov("submit", *lab.here, "--as", "dora", "--no-project", "--wait", "--", "sh", "-c", "id -un; echo $HOME")
    job = lab.gpuprov.json("jobs", *lab.here, "--as", "dora")["jobs"][-1]
    assert lab.gpuprov("jobs", "logs", job["id"], *lab.here, "--as", "dora").stdout.splitlines()[0] == "dora"
    assert lab.in_node("stat", "-c", "%U %a", "/shared/home/dora") == "dora 700"
    assert "such a person" in lab.gpuprov("jobs", *lab.here, "--as", "emma", expect=2).stderr
    key = (lab.folder / "dora.pub").read_text().strip()
    script = f"cd /shared/home/dora; mkdir -m 700 .ssh; echo '{key}' >.ssh/authorized_keys"
    lab.in_node("runuser", "-u", "dora", "--", "sh", "-c", script)
    assert lab.said("dora", "id -un; pwd").split() == ["dora", "/shared/home/dora"]
    assert "Permission denied" in lab.ssh("dora", 0, "ls /shared").stderr
    assert lab.ssh("dora", 1, "true").returncode == 255
    job = lab.said("dora", f"sbatch --parsable -w {lab.second} --output=out --wrap 'id -un; exec sleep 600'")
    lab.wait_for_job(job, "RUNNING")
    assert lab.ssh("dora", 1, "hostname").stdout.strip() == lab.second
    assert lab.said("dora", "cat out") == "dora"
    assert job not in lab.said("ann", "squeue -h -o %i").split()
    lab.said("dora", f"scancel {job}")


def test_people_of_a_directory_share_the_folder_of_their_account_and_have_none_in_the_nodes(lab: Lab) -> None:
    lab.said("dora", "umask 0; echo 44 >/shared/accounts/vision/of-dora")
    assert lab.said("ann", "cat /shared/accounts/vision/of-dora; stat -c '%U %G' /shared/accounts/vision/of-dora") == (
        "44\ndora vision"
    )
    assert "dora" not in lab.in_node("cat", "/var/lib/extrausers/passwd", "/etc/gpuprov/people/keys")
    row = next(row for row in lab.gpuprov.json("person", "list", *lab.here)["people"] if row["name"] == "dora")
    assert (row["uid"], row["account"], row["gpus"], row["keys"]) == (None, "vision", 1, [])


def test_whom_the_directory_does_not_know_is_named(lab: Lab) -> None:
    lab.gpuprov("person", "add", "emma", *lab.here)
    assert "sssd: warn: the directory does not know emma" in lab.gpuprov("verify", *lab.here).stdout
    lab.gpuprov("person", "rm", "emma", *lab.here)
