"""Verbs with this terminal's input and output in a node of any host, and copies: exec, shell, ssh, cp."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from gpuprov.cli.command import command
from gpuprov.cli.engine import engine_option
from gpuprov.cli.options import complete_nodes, given_command, node_argument
from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import Driver
    from gpuprov.link.address import RemoteMachine


class NodeCommand(click.Command):
    """`VERB [OPTIONS] NODE [OPTIONS] [--] [COMMAND...]`: what begins with `-` before the command is an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the options first, as click wants them where the rest belongs to somebody else."""
        with_value = {
            name
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag and not option.count
            for name in option.opts
        }
        options: list[str] = []
        names: list[str] = []
        left = [*args]
        while left and left[0] != "--" and (left[0].startswith("-") or not names):
            word = left.pop(0)
            if not word.startswith("-"):
                names.append(word)
                continue
            options.append(word)
            if word in with_value and left:
                options.append(left.pop(0))
        return super().parse_args(ctx, [*options, *names, *left])


@command(
    node_argument(),
    engine_option,
    click.argument("argv", metavar="COMMAND...", nargs=-1, type=click.UNPROCESSED),
    kind=NodeCommand,
    context_settings={"allow_interspersed_args": False},
)
def execute(session: Session, node: str, argv: tuple[str, ...]) -> int:
    """Run a command in a node, with this terminal's input and output; exits with the command's status.

    With --json, only errors of gpuprov are documents.
    """
    from gpuprov.stories.enter_node import run_in_node

    wanted = given_command(argv)
    if not wanted:
        raise UsageError(
            f"no command is given for {node}",
            evidence="NODE is followed by nothing",
            fix=f"for a shell: gpuprov shell {node}; for a command: gpuprov exec {node} -- nvidia-smi",
        )
    return _enter(session, node, ["exec", node, "--", *wanted], lambda driver: run_in_node(driver, node, wanted))


@command(node_argument(), engine_option)
def shell(session: Session, node: str) -> int:
    """Open root's login shell in a node."""
    from gpuprov.stories.enter_node import run_in_node

    return _enter(session, node, ["shell", node], lambda driver: run_in_node(driver, node, ("bash", "--login")))


@command(
    node_argument(),
    engine_option,
    click.argument("argv", metavar="[COMMAND...]", nargs=-1, type=click.UNPROCESSED),
    kind=NodeCommand,
    context_settings={"allow_interspersed_args": False},
)
def ssh(session: Session, node: str, argv: tuple[str, ...]) -> int:
    """Log in to a node over ssh, with the cluster's key; the node's host key is checked.

    A node of another host is reached from that host, with its key of the cluster.
    """
    from gpuprov.stories.enter_node import ssh_to_node

    wanted = given_command(argv)
    words = ["ssh", node, *(("--", *wanted) if wanted else ())]
    return _enter(session, node, words, lambda driver: ssh_to_node(driver, node, wanted))


def complete_place(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Node names, each with its colon, or else files of this host; nobody knows what is in a node."""
    if ":" in incomplete:
        return []
    names = [] if "/" in incomplete or incomplete.startswith(".") else complete_nodes(context, parameter, incomplete)
    return [CompletionItem(f"{name}:") for name in names] or [CompletionItem(incomplete, type="file")]


@command(
    click.argument("source", shell_complete=complete_place),
    click.argument("target", shell_complete=complete_place),
    engine_option,
)
def cp(session: Session, source: str, target: str) -> Outcome:
    """Copy a file or folder between this host and a running node.

    The node's end is NODE:PATH. A path in a node that does not begin with a slash is below /root.

    Into a node: gpuprov cp results.csv c000:/tmp/

    From a node: gpuprov cp c000:/var/log/slurm ./logs

    If TARGET is a folder, the copy is put into it. A file replaces a file; nothing else is replaced.
    """
    from gpuprov.cluster.copy_ends import parse_end, refuse_same_side
    from gpuprov.fleet.where import reach_node
    from gpuprov.stories.copy_files import copy_files

    ends = parse_end(source), parse_end(target)
    refuse_same_side(*ends)
    driver = reach_node(session.fleet, ends[0].node or ends[1].node or "")
    return copy_files(driver, *ends, reporter=session.reporter)


def _enter(session: Session, node: str, words: Sequence[str], run: Callable[[Driver], int]) -> int:
    """Run it here, or on the host that has the node, over ssh; returns its exit status.

    Args:
        session: Of this run.
        node: What is entered.
        words: The same command, as it is typed on the node's own host.
        run: Runs it on this machine.
    """
    from gpuprov.cluster.find_engine import open_engine_of_node
    from gpuprov.fleet.where import find_host

    machine = find_host(session.fleet, node)
    if machine is not None:
        return run_on_host(session, machine, words)
    return run(open_engine_of_node(node, session.engine or "", session.host, reporter=session.reporter))


def run_on_host(session: Session, machine: RemoteMachine, words: Sequence[str]) -> int:
    """Run the same command there, with this process's streams; returns its exit status."""
    from gpuprov.cli.session import way_to_hosts
    from gpuprov.link.install_paths import PROGRAM

    said = {"--quiet": session.quiet, "--verbose": session.verbose, "--json": session.as_json}
    flags = [flag for flag, given in said.items() if given]
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not session.as_json
    session.members.close()  # that may take hours
    return way_to_hosts(session).attach(machine, [PROGRAM, *flags, *words], terminal=terminal)
