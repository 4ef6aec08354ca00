"""The site's `sssd.conf` of a cluster over hosts: read on the machine on which a command is typed, for all hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.spec.sssd import find_faults_of_file, read_sssd

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import ClusterSpec


def read_for_hosts(spec: ClusterSpec) -> str:
    """The file that a spec names; empty where it names none.

    Raises:
        UsageError: This machine does not have it, or it would leave the nodes without anybody.
    """
    if spec.sssd is None:
        return ""
    text, unread = read_sssd(Path(spec.sssd))
    problems = [message for _, message, _ in find_faults_of_file(spec, text, unread)]
    if problems:
        raise UsageError(
            f"the hosts of cluster {spec.name} cannot be sent its sssd.conf",
            evidence="; ".join(problems),
            fix=f"run this on the machine that has it, or bring it here: {spec.sssd}",
        )
    return text
