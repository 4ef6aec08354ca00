"""Where jobs are in nodes: the mount that all nodes share, the folder of jobs, and the account that they run as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.names import name_cluster
from gpuprov.spec.people import home_of
from gpuprov.spec.shared_folder import ACCOUNT, JOBS, PROGRAMS, SHARED

if TYPE_CHECKING:
    from gpuprov.drivers.base import NodeState

FOLDER: Final = JOBS
HOME: Final = f"/home/{ACCOUNT}"
PROJECTS: Final = "/opt/gpuprov-project-"  # root's, until the program has frozen the project on the shared folder
# What runuser and Python say where the image is older than jobs are
_LACKS: Final = (f"user {ACCOUNT} does not exist", "No module named")


def place_of(folder: str, person: str) -> str:
    """Where the nodes have what somebody has of a folder of the account of jobs; of nobody, that folder."""
    return f"{home_of(person, shared=True)}/{folder.removeprefix(f'{SHARED}/')}" if person else folder


def jobs_of(person: str) -> str:
    """Where the nodes have the jobs of somebody; of nobody, those of the account."""
    return place_of(FOLDER, person)


def controller_argv(*arguments: str, person: str = "") -> list[str]:
    """The command by which a node's root runs the program for jobs as the account, or as somebody."""
    return _argv("gpuwork.jobs", "--folder", jobs_of(person), *arguments, person=person)


def grid_argv(*arguments: str, person: str = "") -> list[str]:
    """The same of the program for grids."""
    return _argv("gpuwork.grid", *arguments, person=person)


def anneal_argv(*arguments: str, person: str = "") -> list[str]:
    """The same of the program for annealing."""
    return _argv("gpuwork.anneal", *arguments, person=person)


def cuda_program_argv(*arguments: str, person: str = "") -> list[str]:
    """The same of the program for CUDA programs, with its store."""
    return _argv("gpuwork.programs", "--store", place_of(PROGRAMS, person), *arguments, person=person)


def text_argv(text: str, *arguments: str, person: str = "") -> list[str]:
    """The same of a program that is sent as text."""
    return _python_argv("-c", text, *arguments, person=person)


def _argv(program: str, *arguments: str, person: str) -> list[str]:
    return _python_argv("-m", program, *arguments, person=person)


def _python_argv(*arguments: str, person: str) -> list[str]:
    home = home_of(person, shared=True) if person else HOME
    return ["runuser", "-u", person or ACCOUNT, "--", "env", f"HOME={home}", "python3", "-I", *arguments]


def require_shared(node: NodeState, cluster: str, *, spans: bool) -> None:
    """Refuse a node that does not have the folder that all nodes share.

    Args:
        node: Of the cluster.
        cluster: Its name.
        spans: Whether it is on several hosts, which must share a folder first.

    Raises:
        UsageError: Nothing is mounted there.
    """
    if all(mount.target != SHARED for mount in node.mounts):
        raise UsageError(
            f"cluster {cluster} has no shared folder for jobs",
            evidence=f"{node.name} has no mount at {SHARED}",
            fix=name_cluster("gpuprov cluster up --share FOLDER" if spans else "gpuprov cluster up --share", cluster),
        )


def require_program(said: str, node: str, cluster: str) -> None:
    """Refuse a node whose image has no account or no program for jobs.

    Raises:
        EngineError: What a command said there shows it.
    """
    if any(words in said for words in _LACKS):
        again = "gpuprov cluster down; gpuprov cluster up"
        raise EngineError(
            f"the image of {node} does not support jobs",
            evidence=excerpt(said.strip(), LINE),
            fix=name_cluster(f"create the cluster again, from a new image: {again}", cluster),
        )
