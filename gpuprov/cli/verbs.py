"""Every verb: where it is, and its line in `--help`.

A verb's module is imported only when the verb is invoked.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verb:
    """One verb, or a group of verbs where `place` is None; a verb with others below it is both.

    Attributes:
        place: Its module and its name there, such as `gpuprov.cli.node:stop`; the name may be left out for `command`.
        help: One line.
        digits: The verb below it that is meant where an id follows, such as 7.
        takes_command: Whether what follows is a command of any name, unless it begins with a verb below it.
    """

    place: str | None
    help: str
    digits: str = ""
    takes_command: bool = False

    @property
    def module(self) -> str | None:
        """The module that serves it."""
        return None if self.place is None else self.place.partition(":")[0]

    def load(self) -> Any:  # noqa: ANN401 - a click.Command, which this module does not import
        """Import the module, and return the command."""
        module, _, name = (self.place or "").partition(":")
        return getattr(importlib.import_module(module), name or "command")


VERBS: dict[str, Verb] = {
    "create-node": Verb("gpuprov.cli.create_node:create", "Add a node."),
    "cluster": Verb(None, "Bring clusters up, list and show them, take them down."),
    "cluster up": Verb("gpuprov.cli.cluster:up", "Create, grow, shrink or repair a cluster."),
    "cluster plan": Verb("gpuprov.cli.cluster:plan", "Show what `cluster up` would change."),
    "cluster list": Verb("gpuprov.cli.list:list_clusters", "List the clusters."),
    "cluster status": Verb("gpuprov.cli.list:status", "Show nodes, GPUs, Slurm and health."),
    "cluster spec": Verb("gpuprov.cli.cluster:spec", "Print the spec of a cluster, as a file for `cluster up -f`."),
    "cluster save": Verb("gpuprov.cli.cluster:save", "Save a cluster's spec, ssh keys and shared files to a file."),
    "cluster restore": Verb("gpuprov.cli.cluster:restore", "Make a cluster again from such a file."),
    "cluster down": Verb("gpuprov.cli.cluster:down", "Remove a cluster and everything that belongs to it."),
    "person": Verb(None, "Give people accounts in the nodes of a cluster."),
    "person add": Verb("gpuprov.cli.person:add", "Give somebody an account in all nodes."),
    "person list": Verb("gpuprov.cli.person:list_people", "List the people of a cluster."),
    "person set": Verb("gpuprov.cli.person:change", "Change somebody's keys, account or limit."),
    "person rm": Verb("gpuprov.cli.person:remove", "Take somebody's account out of all nodes."),
    "verify": Verb("gpuprov.cli.verify:verify", "Verify that every node works."),
    "smoke": Verb("gpuprov.cli.smoke:smoke", "Run a smoke kernel in nodes, or on this machine with --local."),
    "run": Verb(
        "gpuprov.cli.run:run",
        "Run a command in a container with GPUs of its own; list, stop and remove these.",
        takes_command=True,
    ),
    "run ps": Verb("gpuprov.cli.run:ps", "List the containers of `gpuprov run`."),
    "run logs": Verb("gpuprov.cli.run:logs", "Show what the command of a container printed."),
    "run stop": Verb("gpuprov.cli.run:stop", "Stop containers; they keep their GPUs."),
    "run rm": Verb("gpuprov.cli.run:rm", "Remove containers that have ended; their GPUs are free then."),
    "submit": Verb("gpuprov.cli.submit:submit", "Submit a command or a function as jobs of a cluster."),
    "jobs": Verb(
        "gpuprov.cli.jobs:listing",
        "List the jobs of a cluster; show, follow, cancel, wait for or copy some.",
        digits="show",
    ),
    "jobs show": Verb("gpuprov.cli.jobs:show", "Show all details of jobs."),
    "jobs logs": Verb("gpuprov.cli.jobs:logs", "Show what a job printed."),
    "jobs cancel": Verb("gpuprov.cli.jobs:cancel", "End jobs."),
    "jobs pull": Verb("gpuprov.cli.jobs:pull", "Copy what jobs printed and wrote to here."),
    "jobs rm": Verb("gpuprov.cli.jobs:remove", "Remove what ended jobs left."),
    "jobs wait": Verb("gpuprov.cli.jobs:wait", "Wait until jobs have ended."),
    "usage": Verb("gpuprov.cli.usage:usage", "Show the GPU hours of people, accounts, nodes, GPUs or jobs."),
    "queue": Verb(None, "Look at the queue of a cluster's workers."),
    "queue page": Verb("gpuprov.cli.jobs:page", "Let a browser open the page of the queue, until Ctrl-C."),
    "rest": Verb("gpuprov.cli.rest:rest", "Let programs use Slurm's REST API, until Ctrl-C."),
    "token": Verb("gpuprov.cli.rest:token", "Print a token for Slurm's REST API."),
    "grid": Verb(None, "Run parameter grids as jobs of a cluster."),
    "grid run": Verb("gpuprov.cli.grid:run", "Submit the runs of a grid that are missing."),
    "grid status": Verb("gpuprov.cli.grid:status", "Show which runs are done, failed, under way and missing."),
    "grid results": Verb("gpuprov.cli.grid:results", "Show all runs, the best first, or draw their series."),
    "grid pull": Verb("gpuprov.cli.grid:pull", "Copy runs that have ended into the project."),
    "grid cancel": Verb("gpuprov.cli.grid:cancel", "End the runs of a grid."),
    "anneal": Verb(None, "Anneal models of your own on the GPUs of a cluster."),
    "anneal check": Verb("gpuprov.cli.anneal:check", "Find all faults of models without executing them."),
    "anneal run": Verb("gpuprov.cli.anneal:run", "Run chains on a cluster or this machine, and get the best states."),
    "program": Verb(None, "Check CUDA programs, and run them on the GPUs of a cluster."),
    "program check": Verb("gpuprov.cli.program:check", "List all faults of a program."),
    "program run": Verb("gpuprov.cli.program:run", "Run a program on a table, in iterations over many GPUs."),
    "program list": Verb("gpuprov.cli.program:list_", "List the registered programs."),
    "program rm": Verb("gpuprov.cli.program:remove", "Remove a registered program."),
    "program page": Verb("gpuprov.cli.program:page", "Let a browser open Dask's page of a run, until Ctrl-C."),
    "gpus": Verb("gpuprov.cli.gpus:gpus", "Show the GPUs of this host and of other hosts, and their holders."),
    "hardware": Verb("gpuprov.cli.gpus:hardware", "Show the processors and GPUs of this host and of the nodes."),
    "gate": Verb(None, "Give GPUs of their own to containers that Docker starts."),
    "gate up": Verb("gpuprov.cli.gate:up", "Have Docker know the runtime that leases GPUs; needs root."),
    "gate down": Verb("gpuprov.cli.gate:down", "Revert `gate up`; needs root."),
    "gate status": Verb("gpuprov.cli.gate:status", "Show the runtime and the containers that name it."),
    "gate check": Verb("gpuprov.cli.gate:check", "Run the runtime as Docker does, and say what it lacks."),
    "gate explain": Verb("gpuprov.cli.gate:explain", "Say what the runtime would do to a docker run; starts nothing."),
    "cdi": Verb("gpuprov.cli.gpus:cdi", "Describe this host's GPUs to engines that read CDI."),
    "list": Verb("gpuprov.cli.list:list_nodes", "List the nodes of all clusters."),
    "show": Verb("gpuprov.cli.node:show", "Show all details of a node."),
    "start": Verb("gpuprov.cli.node:start", "Start nodes."),
    "stop": Verb("gpuprov.cli.node:stop", "Stop nodes."),
    "rm": Verb("gpuprov.cli.node:rm", "Remove nodes."),
    "exec": Verb("gpuprov.cli.enter:execute", "Run a command in a node."),
    "shell": Verb("gpuprov.cli.enter:shell", "Open a shell in a node."),
    "ssh": Verb("gpuprov.cli.enter:ssh", "Log in to a node over ssh."),
    "cp": Verb("gpuprov.cli.enter:cp", "Copy files between this host and a node."),
    "logs": Verb("gpuprov.cli.node:logs", "Show a node's console output."),
    "clone": Verb("gpuprov.cli.create_node:clone", "Copy a stopped node into a new one."),
    "snapshot": Verb("gpuprov.cli.node:snapshot", "Take a snapshot of a node."),
    "restore": Verb("gpuprov.cli.node:restore", "Restore a node to a snapshot."),
    "expose": Verb("gpuprov.cli.node:expose", "Forward a port of the host to a node."),
    "unexpose": Verb("gpuprov.cli.node:unexpose", "Stop forwarding a port."),
    "play": Verb("gpuprov.cli.ansible:play", "Run an Ansible playbook on nodes, or on any hosts."),
    "inventory": Verb("gpuprov.cli.ansible:inventory", "Print all nodes as an Ansible inventory."),
    "example": Verb(None, "Write examples to start from."),
    "example lab": Verb("gpuprov.cli.ansible:write_lab", "Write an inventory of lab hosts and its playbook."),
    "example program": Verb("gpuprov.cli.program:write_example", "Write a CUDA program that sums a column."),
    "doctor": Verb("gpuprov.cli.host:doctor", "List what the host lacks; changes nothing."),
    "explain": Verb("gpuprov.cli.machine:explain", "Explain a log line or a check, and its fix."),
    "kubernetes": Verb(None, "Write what Kubernetes runs."),
    "kubernetes manifests": Verb("gpuprov.cli.kubernetes:manifests", "Print manifests for a docker compose file."),
    "record": Verb("gpuprov.cli.machine:record", "Print this host's GPU facts, for replay or a bug report."),
    "bundle": Verb("gpuprov.cli.machine:bundle", "Collect logs, facts and versions for a bug report, without secrets."),
    "host": Verb(None, "Prepare this machine for nodes, or add other hosts."),
    "host add": Verb("gpuprov.cli.host:add", "Add a host that ssh reaches: install gpuprov, prepare an engine."),
    "host list": Verb("gpuprov.cli.host:list_hosts", "List the hosts that were added."),
    "host show": Verb("gpuprov.cli.host:show", "Show a host: engines, nodes, GPUs, room."),
    "host remove": Verb("gpuprov.cli.host:remove", "Remove a host and the gpuprov on it."),
    "host prepare": Verb(
        "gpuprov.cli.host:prepare", "Install and start the engine and create its storage; needs root."
    ),
    "host undo": Verb("gpuprov.cli.host:undo", "Revert `host prepare`; needs root."),
    "host mig": Verb(None, "Cut this machine's GPUs into parts with MIG."),
    "host mig export": Verb("gpuprov.cli.mig:export", "Print how the GPUs are cut, as a file of mig-parted."),
    "host mig assert": Verb("gpuprov.cli.mig:check", "Say whether the GPUs are cut as a file says."),
    "host mig apply": Verb("gpuprov.cli.mig:apply", "Cut the GPUs as a file says; needs root."),
    "image": Verb(None, "Build, list and remove node images."),
    "image build": Verb("gpuprov.cli.image:build", "Build the node image if it does not exist."),
    "image list": Verb("gpuprov.cli.image:list_images", "List the node images."),
    "image rm": Verb("gpuprov.cli.image:rm", "Remove node images."),
    "completion": Verb("gpuprov.cli.machine:completion", "Print the shell completion script."),
}

# Verbs that gpuprov itself starts on other hosts, or systemd at boot; no list, page or completion shows them
HIDDEN: dict[str, Verb] = {
    "member": Verb("gpuprov.cli.member:serve", "Serve a request of another host's gpuprov."),
    "member-restore": Verb("gpuprov.cli.member:restore", "Restore what a reboot removed from networks."),
    "member-tree": Verb("gpuprov.cli.member:tree", "Copy files between a node and another host's gpuprov."),
}

# The sections of `gpuprov --help` and of docs/commands.md: the everyday ones first
GROUPS: dict[str, tuple[str, ...]] = {
    "Clusters": ("cluster", "person", "verify", "smoke"),
    "Jobs": ("submit", "jobs", "usage", "queue", "rest", "token", "grid", "anneal", "program"),
    "GPUs": ("run", "gpus", "hardware", "cdi", "gate", "kubernetes"),
    "Nodes": (
        *("create-node", "list", "show", "start", "stop", "rm", "exec", "shell", "ssh", "cp", "logs"),
        *("clone", "snapshot", "restore", "expose", "unexpose"),
    ),
    "Ansible": ("play", "inventory", "example"),
    "This machine": ("doctor", "explain", "record", "bundle", "host", "image", "completion"),
}
