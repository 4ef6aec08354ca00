"""What jobs try that must be refused, and what came of each attempt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.e2e.desk import Desk

SECRETS = (
    "/etc/gpuwork/definitions.json",
    "/etc/rabbitmq/definitions.json",
    "/var/lib/rabbitmq/.erlang.cookie",
    "/etc/shadow",
)
ADMINISTRATION = ("/", "guest", "rabbitmqctl")
# Tried as a job: what each attempt came to, by its name
_ATTEMPTS = """\
import json, os, stat, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from kombu import Connection

def attempt(what):
    try:
        return what()
    except Exception as error:
        return type(error).__name__

def enter(url):
    with Connection(url, connect_timeout=5) as connection:
        connection.connect()
    return "entered"

def enter_at(host):
    return attempt(lambda: enter(url.replace(url.split("@")[1].split(":")[0], host)))

def make(minor):
    os.mknod(os.path.join(tempfile.mkdtemp(), "gpu"), stat.S_IFCHR | 0o600, os.makedev(195, minor))

files, hosts, gpus = map(json.loads, sys.argv[1:])
url = open("/etc/gpuwork/broker").read().strip()
listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
administer = ["/usr/sbin/rabbitmqctl", "list_users"]
told = {path: attempt(lambda: len(open(path, "rb").read())) for path in files}
with ThreadPoolExecutor(16) as threads:
    told |= zip(hosts, threads.map(enter_at, hosts))
told["own"] = attempt(lambda: enter(url))
told["/"] = attempt(lambda: enter(url.rpartition("/")[0] + "//"))
told["guest"] = attempt(lambda: enter("amqp://guest:guest@" + url.partition("@")[2]))
told["rabbitmqctl"] = attempt(lambda: subprocess.run(administer, capture_output=True).returncode)
told["gpus"] = [line.partition("UUID: ")[2].rstrip(")") for line in listed.splitlines()]
told["opened"] = [attempt(lambda: os.open(f"/dev/nvidia{minor}", os.O_RDWR) and "opened") for minor in range(gpus)]
told["made"] = [attempt(lambda: make(minor) or "made") for minor in range(gpus)]
print(json.dumps(told))
"""


def attempt_as_jobs(desk: Desk, hosts: Sequence[str], *, gpus: int = 0) -> dict[str, dict[str, Any]]:
    """What a job on each node came to, by the node's name.

    Args:
        desk: Where to submit.
        hosts: Addresses at which the jobs look for a broker that takes their own password.
        gpus: How many GPUs they try to open, and to make: those with the lowest minors.
    """
    (desk.project / "attempts.py").write_text(_ATTEMPTS)
    slowly = ("sh", "-c", 'python3 attempts.py "$@"; sleep 5', "sh", json.dumps(SECRETS), json.dumps(hosts), str(gpus))
    job = desk.submit("--project", str(desk.project), "--count", "2", "--", *slowly)
    desk("jobs", "wait", job)
    found = {row["node"]: json.loads(desk.log(row["id"])) for row in desk.rows(job)}
    assert set(found) == set(desk.nodes()), "both nodes"
    return found
