"""Every verb: the module that serves it, and its line in `--help`.

A verb's module is imported only when the verb is invoked; it offers a click command named `command`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """One verb, or a group of verbs where `module` is None."""

    module: str | None
    help: str


VERBS: dict[str, Verb] = {
    "create-node": Verb("gpuprov.cli.create_node", "Make one more node."),
    "cluster": Verb(None, "Bring a cluster up, look at it, take it down."),
    "cluster up": Verb("gpuprov.cli.cluster_up", "Make, grow, shrink or repair a cluster."),
    "cluster plan": Verb("gpuprov.cli.cluster_plan", "Show what `cluster up` would change."),
    "cluster status": Verb("gpuprov.cli.cluster_status", "Show nodes, GPUs, Slurm and health."),
    "cluster down": Verb("gpuprov.cli.cluster_down", "Remove a cluster and all that belongs to it."),
    "verify": Verb("gpuprov.cli.verify", "Prove that every node works."),
    "smoke": Verb("gpuprov.cli.smoke", "Run one smoke kernel in nodes, or here with --local."),
    "run": Verb("gpuprov.cli.run", "Run one command in a container with GPUs of its own."),
    "gpus": Verb("gpuprov.cli.gpus", "Show this host's GPUs and who holds them."),
    "list": Verb("gpuprov.cli.list", "List the nodes of every cluster."),
    "show": Verb("gpuprov.cli.show", "Show all about one node."),
    "start": Verb("gpuprov.cli.start", "Start nodes."),
    "stop": Verb("gpuprov.cli.stop", "Stop nodes."),
    "rm": Verb("gpuprov.cli.rm", "Remove nodes."),
    "exec": Verb("gpuprov.cli.exec", "Run a command in a node."),
    "shell": Verb("gpuprov.cli.shell", "Open a shell in a node."),
    "ssh": Verb("gpuprov.cli.ssh", "Log in to a node by ssh."),
    "logs": Verb("gpuprov.cli.logs", "Show a node's console."),
    "clone": Verb("gpuprov.cli.clone", "Copy a stopped node into a new one."),
    "snapshot": Verb("gpuprov.cli.snapshot", "Keep a node's state under a name."),
    "restore": Verb("gpuprov.cli.restore", "Bring a node back to a snapshot."),
    "expose": Verb("gpuprov.cli.expose", "Forward a port of the host into a node."),
    "unexpose": Verb("gpuprov.cli.unexpose", "Stop forwarding a port."),
    "play": Verb("gpuprov.cli.play", "Run an Ansible playbook on nodes, or on any hosts."),
    "inventory": Verb("gpuprov.cli.inventory", "Show every node as an inventory for Ansible."),
    "doctor": Verb("gpuprov.cli.doctor", "Look at the host and say what is missing; changes nothing."),
    "explain": Verb("gpuprov.cli.explain", "Say what a log line or a check means, and the fix."),
    "record": Verb("gpuprov.cli.record", "Print this host's GPU facts, to replay or to report a bug."),
    "bundle": Verb("gpuprov.cli.bundle", "Collect logs, facts and versions for a bug report, without secrets."),
    "host": Verb(None, "Prepare this machine for nodes, or undo that."),
    "host prepare": Verb("gpuprov.cli.host_prepare", "Install and start the engine and make its storage; needs root."),
    "host undo": Verb("gpuprov.cli.host_undo", "Take back what `host prepare` did; needs root."),
    "image": Verb(None, "Build, list and remove node images."),
    "image build": Verb("gpuprov.cli.image_build", "Build the node image, unless it is there already."),
    "image list": Verb("gpuprov.cli.image_list", "List the node images that gpuprov made."),
    "image rm": Verb("gpuprov.cli.image_rm", "Remove a node image."),
    "completion": Verb("gpuprov.cli.completion", "Print the script that makes a shell complete gpuprov's verbs."),
}
