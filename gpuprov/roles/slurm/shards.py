"""Shards of GPUs: how Slurm counts the jobs that share one, and what a spec may say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.roles.slurm.facts import NAME
from gpuprov.spec.rule import SpecRule

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.rule import Found

_KEY: Final = "slurm.shards_per_gpu"
_BEFORE_SHARDS: Final = "jammy"  # has Slurm 21.08; shards came with 22.05
_NOTE: Final = "jobs on shards of a GPU share all of its memory and time: Slurm counts shards, and fences nothing"


def shard_notes(spec: ClusterSpec) -> tuple[str, ...]:
    """What whoever brings up a cluster with shards has to know."""
    return (_NOTE,) if spec.slurm.shards_per_gpu else ()


def _role(spec: ClusterSpec, _root: Path) -> Found:
    if spec.slurm.shards_per_gpu and spec.nodes.role != NAME:
        yield _KEY, f"nodes with the role {spec.nodes.role} have no shards", f"null, or nodes.role: {NAME}"


def _base(spec: ClusterSpec, _root: Path) -> Found:
    if spec.slurm.shards_per_gpu and spec.image.base == _BEFORE_SHARDS:
        yield _KEY, f"the Slurm of {_BEFORE_SHARDS} has no shards", "null, or another image.base"


RULES: Final = (
    SpecRule(reads=(_KEY, "nodes.role"), find=_role),
    SpecRule(reads=(_KEY, "image.base"), find=_base),
)
