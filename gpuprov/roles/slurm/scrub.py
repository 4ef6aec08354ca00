"""Memory of GPUs between people: what Slurm runs before a job, and what a spec may say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.drivers.base import File
from gpuprov.roles.slurm.facts import NAME, slurm_path
from gpuprov.spec.rule import SpecRule

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.rule import Found

_KEY: Final = "gpus.scrub"


def scrub_programs(spec: ClusterSpec) -> tuple[File, ...]:
    """The prolog of jobs, where the spec wants it."""
    if not spec.gpus.scrub:
        return ()
    text = (get_asset("templates") / NAME / "prolog.sh").read_bytes()
    return (File(path=slurm_path("prolog"), content=text, mode=0o755),)


def _find(spec: ClusterSpec, _root: Path) -> Found:
    if not spec.gpus.scrub:
        return
    if spec.nodes.role != NAME:
        yield _KEY, f"nodes with the role {spec.nodes.role} scrub no GPUs: all their jobs run as one account", "false"
    if spec.gpus.sharing != "exclusive":
        yield (
            _KEY,
            "GPUs are shared with other nodes, whose jobs would find no memory meanwhile",
            ("false, or gpus.sharing: exclusive"),
        )
    if spec.slurm.shards_per_gpu:
        yield _KEY, "jobs of several people are on a GPU at once by shards", "false, or slurm.shards_per_gpu: null"


RULES: Final = (SpecRule(reads=(_KEY, "nodes.role", "gpus.sharing", "slurm.shards_per_gpu"), find=_find),)
