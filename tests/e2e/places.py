"""The names and networks of the clusters of these tests, in one table: no two test modules share any.

A module asks for the fixture `place`; what a failed or killed run of it left is swept before it starts and after it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.remains import find_folders, find_processes, sweep_remains

MODULES = (
    "docker",
    "docker_beside",
    "endings",
    "engine",
    "exhaustion",
    "foreign",
    "kills",
    "kills_docker",
    "networks",
    "privilege",
    "races",
    "repair",
    "refusals",
    "twice",
    "gpus",
    "privilege_listens",
    "ansible",
    "ansible_docker",
    "lab",
    "upgrade",
    "copies",
    "jobs_spared",
    "hostile",
    "hostile_docker",
    "second_cluster",
    "incus",
    "kills_incus",
    "twice_incus",
    "fresh_machine",
    "suites",
    "hostile_slurm",
    "hostile_slurm_docker",
    "work",
    "examples",
    "image_contents",
    "engine_cluster",
    "gate_systemd",
)
EVERY_GPU = "per_node: 4"  # which GPUs a node gets must not depend on what other clusters of the machine hold
LETTERS = "ghijklmnopqrstuvwxyzacdfe1234567890AB"  # `b` is that of the cluster that all modules share
MARK = "user.gpte2e"  # of objects that stand for somebody else's: gpuprov must not touch them, and we must
_FIRST_BLOCK = 32
_SUBNETS = 4
_BUDGET_S = 120
DOCKER = Path("/var/run/docker.sock")
SHARED = Path("/srv/gpuprov")


@dataclass(frozen=True, kw_only=True)
class Place:
    """What one module's clusters are called, and four subnets; the first two are its cluster's."""

    number: int

    @property
    def cluster(self) -> str:
        return f"gpte2e{LETTERS[self.number]}"

    @property
    def mark(self) -> str:
        """What the names of its nodes and links begin with."""
        return f"gpte{LETTERS[self.number]}"

    def node(self, number: int) -> str:
        return f"{self.mark}{number:03}"

    def address(self, subnet: int, host: int) -> str:
        assert 0 <= subnet < _SUBNETS
        return f"10.78.{_FIRST_BLOCK + _SUBNETS * self.number + subnet}.{host}"

    def subnet(self, number: int) -> str:
        return f"{self.address(number, 0)}/24"

    def spec(
        self,
        *,
        count: int = 2,
        nodes: str = "",
        gpus: str = "",
        engine: str = "lxd",
        share: str = "false",
        **network: str,
    ) -> str:
        """A spec of its cluster; `nodes` and `gpus` are more for those keys, `network` replaces values."""
        values = {
            "bridge": f"{self.mark}0",
            "subnet": self.subnet(0),
            "private_bridge": f"{self.mark}1",
            "private_subnet": self.subnet(1),
            **network,
        }
        nodes, gpus = (f", {more}" if more else "" for more in (nodes, gpus))
        return (
            f"version: gpuprov/v1\nname: {self.cluster}\nengine: {engine}\n"
            f"nodes: {{count: {count}, prefix: {self.mark}{nodes}}}\ngpus: {{mode: simulated{gpus}}}\n"
            f"network: {{{', '.join(f'{key}: {value}' for key, value in values.items())}}}\n"
            f"{f'share: {share}' if share else ''}\n"
        )

    def has(self, name: str, labels: dict[str, Any]) -> bool:
        """Whether an object is of this place, by its name or by its owner's label."""
        owner = str(labels.get("user.gpuprov.cluster") or labels.get("gpuprov.cluster"))
        return owner.startswith((self.cluster, f"{self.mark}-")) or name.startswith(self.mark)

    def is_in(self, text: str) -> bool:
        """Whether the text has the name of one of its links, or one of its addresses."""
        blocks = "|".join(str(_FIRST_BLOCK + _SUBNETS * self.number + subnet) for subnet in range(_SUBNETS))
        return re.search(rf"\b{self.mark}(\d|[a-z]\d)|\b10\.78\.({blocks})\.", text) is not None


PLACES = {name: Place(number=number) for number, name in enumerate(MODULES)}
# one after the other, as no letter is left
PLACES |= dict.fromkeys(("grid", "anneal", "program"), PLACES["suites"])
PLACES |= dict.fromkeys(("accounting", "slurm_in_full", "rest_docker"), PLACES["copies"])
PLACES |= dict.fromkeys(("people", "people_of_workers", "scrub"), PLACES["twice"])
PLACES |= dict.fromkeys(("work_faults", "slurm_backup", "slurm_backup_accounts"), PLACES["work"])
PLACES |= dict.fromkeys(("users_broker",), PLACES["repair"])  # its mark begins no other name, as `gpte2` does
PLACES |= dict.fromkeys(("work_limits", "full_share"), PLACES["image_contents"])
PLACES |= dict.fromkeys(("saved",), PLACES["second_cluster"])
PLACES |= dict.fromkeys(("hosts", "hosts_of_engines", "slurm_backup_hosts", "least_disk"), PLACES["fresh_machine"])


def sweep(*places: Place) -> None:
    """Remove whatever is of these places, by force and without gpuprov; quick where there is nothing."""
    for client in _clients():
        _sweep_lxd(client, places)
    _sweep_remains(places)
    _sweep_docker(places)
    for folder in SHARED.glob("*"):
        if any(place.has("", {"gpuprov.cluster": folder.name.partition(".")[0]}) for place in places):
            shutil.rmtree(folder)
    for link in json.loads(_out("ip", "-j", "link") or "[]"):
        if any(link["ifname"].startswith(place.mark) for place in places):
            _out("ip", "link", "delete", link["ifname"])
    for line in _out("nft", "list", "chains").splitlines():
        chain = line.split()[1] if line.startswith(("\tchain to.", "\tchain from.")) else ""
        if any(chain.partition(".")[2].startswith(place.mark) for place in places):
            _out("nft", "delete", "chain", "inet", "gpuprov", chain)
    for line in _out("ip", "netns", "list").splitlines():
        if any(line.startswith(place.mark) for place in places):
            _out("ip", "netns", "delete", line.split()[0])


def _clients() -> tuple[str, ...]:
    return tuple(client for client in ("lxc", "incus") if shutil.which(client))


def _sweep_lxd(client: str, places: tuple[Place, ...]) -> None:
    for item in json.loads(_out(client, "query", "/1.0/instances?recursion=1") or "[]"):
        name, config = item["name"], item["config"]
        if any(place.has(name, config) or config.get(MARK) == place.cluster for place in places):
            _out(client, "delete", "--force", name)
    for item in json.loads(_out(client, "query", "/1.0/networks?recursion=1") or "[]"):
        if item["managed"] and any(place.has(item["name"], item["config"]) for place in places):
            _out(client, "network", "delete", item["name"])


def _sweep_remains(places: tuple[Place, ...]) -> None:
    marks = [place.mark for place in places if find_folders(place.mark) or find_processes(place.mark)]
    if not marks:
        return
    asked = [(client, f"/1.0/{kind}") for client in _clients() for kind in ("instances", "networks")]
    listed = [json.loads(_out(client, "query", path) or "null") for client, path in asked]
    if all(part is not None for part in listed):  # else an engine is down, and what it has is not known
        kept = {url.rpartition("/")[2] for part in listed for url in part}
        for mark in marks:
            sweep_remains(mark, kept=kept)


def _sweep_docker(places: tuple[Place, ...]) -> None:
    if not DOCKER.exists():  # where it cannot be reached, the SDK leaves a socket open
        return
    try:
        import docker  # type: ignore[import-untyped,unused-ignore]

        client = docker.APIClient()
        containers, networks = client.containers(all=True), client.networks()
        volumes = client.volumes()["Volumes"] or ()
    except Exception:  # noqa: BLE001 - the SDK's, of many kinds: there is no Docker here, and nothing in it
        return
    for item in containers:
        if any(place.has((item["Names"] or ["/"])[0][1:], item["Labels"]) for place in places):
            with suppress(docker.errors.APIError):
                client.remove_container(item["Id"], force=True)
    for item in networks:
        if any(place.has(item["Name"], item["Labels"] or {}) for place in places):
            with suppress(docker.errors.APIError):
                client.remove_network(item["Id"])
    for item in volumes:
        if any(place.has(item["Name"], item["Labels"] or {}) for place in places):
            with suppress(docker.errors.APIError):
                client.remove_volume(item["Name"], force=True)


def _out(*argv: str) -> str:
    """What a command says; nothing where it fails, since sweeping is no test."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=_BUDGET_S)
        return done.stdout if done.returncode == 0 else ""
    return ""
