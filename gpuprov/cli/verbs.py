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
    "doctor": Verb("gpuprov.cli.doctor", "Look at the host and say what is missing; changes nothing."),
    "host": Verb(None, "Prepare this machine for nodes, or undo that."),
    "host prepare": Verb("gpuprov.cli.host_prepare", "Install and start the engine and make its storage; needs root."),
    "host undo": Verb("gpuprov.cli.host_undo", "Take back what `host prepare` did; needs root."),
    "image": Verb(None, "Build, list and remove node images."),
    "image build": Verb("gpuprov.cli.image_build", "Build the node image, unless it is there already."),
    "image list": Verb("gpuprov.cli.image_list", "List the node images that gpuprov made."),
    "image rm": Verb("gpuprov.cli.image_rm", "Remove a node image."),
    "completion": Verb("gpuprov.cli.completion", "Print the script that makes a shell complete gpuprov's verbs."),
}
