"""Slurm's REST API: what a spec may say of it, the key of its tokens, and where it is."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.drivers.base import File
from gpuprov.roles.secret_file import SecretFile
from gpuprov.roles.slurm.facts import NAME, slurm_facts, slurm_path
from gpuprov.roles.work.rest import RestService
from gpuprov.spec.rule import SpecRule
from gpuprov.spec.shared_folder import ACCOUNT
from gpuprov.spec.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.drivers.base import NodeState
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.engine import ImageState
    from gpuprov.spec.rule import Found

_KEY: Final = "slurm.rest"
PACKAGES: Final = ("slurm-wlm-jwt-plugin", "slurmrestd")
LABEL_REST: Final = "gpuprov.slurm-rest"  # of an image: whether it has these packages, `yes` or `no`
HAS_REST: Final = (
    "[ -x /usr/sbin/slurmrestd ] && ls /usr/lib/*/slurm*/auth_jwt.so >/dev/null 2>&1 && echo yes || echo no"
)
_HAS: Final = "yes"
_PURPOSE: Final = b"gpuprov tokens of Slurm"
_DIGITS: Final = 64
TOKEN_KEY: Final = SecretFile(path=slurm_path("token_key"), least_bytes=_DIGITS, most_bytes=_DIGITS)


def token_key_file(munge_key: bytes) -> File:
    """What slurmctld signs tokens with, which follows from the munge key; only its account reads it."""
    key = hmac.new(munge_key, _PURPOSE, hashlib.sha256).hexdigest()
    uid = slurm_facts()["uid"]
    return File(path=TOKEN_KEY.path, content=key.encode(), mode=0o400, uid=uid, gid=uid)


def can_serve(spec: ClusterSpec, nodes: Sequence[NodeState], image: ImageState | None) -> bool:
    """Whether the spec wants the API and all nodes have its packages; without them, Slurm's daemons would not start."""
    labels = [node.labels for node in nodes] + ([image.labels] if image else [])
    return spec.slurm.rest and all(one.get(LABEL_REST) == _HAS for one in labels)


def find_rest(spec: ClusterSpec, nodes: Sequence[NodeState], *, asked: NodeState) -> RestService:
    """Where the API of a cluster is.

    Args:
        nodes: All of the cluster.
        asked: The controller's.

    Raises:
        UsageError: The cluster has none, or none yet.
    """
    if not spec.slurm.rest:
        raise UsageError(
            f"cluster {spec.name} has no REST API",
            evidence="slurm.rest of its spec is false",
            fix=f"set it, and image.packages: [{', '.join(PACKAGES)}]: "
            + name_cluster("gpuprov cluster up", spec.name)
            + " -f FILE",
        )
    if not can_serve(spec, nodes, None):
        older = [node.name for node in nodes if node.labels.get(LABEL_REST) != _HAS]
        raise UsageError(
            f"cluster {spec.name} has no REST API yet",
            evidence=f"the image of {', '.join(older)} lacks {' or '.join(PACKAGES)}",
            fix=name_cluster("replace these nodes: gpuprov cluster up --renew", spec.name),
        )
    look = f"gpuprov exec {asked.name} -- tail /var/log/slurm/slurmctld.log"
    return RestService(node=asked.name, account=ACCOUNT, fix=look)


def _role(spec: ClusterSpec, _root: Path) -> Found:
    if spec.slurm.rest and spec.nodes.role != NAME:
        yield _KEY, f"nodes with the role {spec.nodes.role} have no Slurm", f"false, or nodes.role: {NAME}"


def _hosts(spec: ClusterSpec, _root: Path) -> Found:
    if spec.slurm.rest and spec.hosts:
        yield _KEY, "is not possible with hosts", "false, or a cluster on one host"


def _packages(spec: ClusterSpec, _root: Path) -> Found:
    lacking = [name for name in PACKAGES if name not in spec.image.packages]
    if spec.slurm.rest and lacking and spec.image.base in SUITES:
        yield _KEY, f"needs {' and '.join(lacking)} in the image", f"image.packages: [{', '.join(PACKAGES)}], or false"


RULES: Final = (
    SpecRule(reads=(_KEY, "nodes.role"), find=_role),
    SpecRule(reads=(_KEY, "hosts"), find=_hosts),
    SpecRule(reads=(_KEY, "image.base", "image.packages"), find=_packages),
)
