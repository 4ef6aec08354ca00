"""A controller and the machines that it has added, for tests of clusters over hosts."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuprov.link.hosts_file import read_machines
from gpuprov.link.places import ensure_places
from tests.e2e.several_machines import several_machines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place
    from tests.e2e.several_machines import Lab

AWAY = 7


@dataclass(frozen=True, kw_only=True)
class Controller:
    """This machine, which knows the others by a configuration of its own, and uses no engine of its own for them.

    Attributes:
        gpuprov: With the variables that name this configuration.
    """

    gpuprov: Gpuprov
    lab: Lab
    folder: Path

    @property
    def spec(self) -> str:
        return str(self.folder / "lab.yaml")

    def __call__(self, *argv: str, expect: int = 0) -> Finished:
        return self.gpuprov(*argv, expect=expect)

    def nodes(self, *argv: str, expect: int = 0) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in self("--json", *argv, expect=expect).document["nodes"]}

    def begin_job(self, node: str) -> None:
        """One that takes ten minutes; it runs when this returns."""
        script = f"sbatch -w {node} --wrap 'sleep 600'; until squeue -h -w {node} -t R | grep -q .; do sleep 0.2; done"
        self("exec", "c000", "--", "timeout", "60", "sh", "-c", script)

    def master_of(self, host: str) -> int:
        """The process of ssh that holds the connection to a host."""
        places = ensure_places(self.gpuprov.environment)
        socket = places.socket(read_machines(places.inventory)[host])
        said = subprocess.run(["ssh", "-O", "check", "-S", socket, host], check=True, capture_output=True, text=True)
        (pid,) = re.findall(r"\(pid=(\d+)\)", said.stderr)
        return int(pid)

    def srun(self, node: str, *argv: str) -> list[str]:
        return sorted(self("exec", node, "--", "srun", *argv).stdout.split())


@contextmanager
def controller_of(
    gpuprov: Gpuprov, place: Place, folder: Path, hosts: Mapping[str, Sequence[str]], spec: str
) -> Iterator[Controller]:
    """Machines of these names, each added with these options of `host add`; they are gone at the end."""
    with several_machines(place, folder, tuple(hosts)) as lab:
        yield add_hosts(gpuprov, lab, folder, hosts, spec)
    shutil.rmtree(folder)


def add_hosts(gpuprov: Gpuprov, lab: Lab, folder: Path, hosts: Mapping[str, Sequence[str]], spec: str) -> Controller:
    """What knows the machines of a lab, each added with these options."""
    variables = {"XDG_CONFIG_HOME": str(folder / "config")}
    own = replace(gpuprov, environment={**gpuprov.environment, **variables})
    made = Controller(gpuprov=own, lab=lab, folder=folder)
    (folder / "lab.yaml").write_text(spec)
    for name, options in hosts.items():
        address = ("--address", lab.addresses[name], "--user", "root", "--identity-file", str(lab.key))
        made("host", "add", name, *address, *options)
    return made
