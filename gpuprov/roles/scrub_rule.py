"""Memory of GPUs between people: what a spec may say of it, whatever the role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.spec.rule import SpecRule

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.rule import Found

_KEY: Final = "gpus.scrub"


def scrub_rule(scrubbing: Collection[str]) -> SpecRule:
    """Refuses scrubbing where it could protect nothing; `scrubbing` are the roles that can."""

    def find(spec: ClusterSpec, _root: Path) -> Found:
        if not spec.gpus.scrub:
            return
        if spec.nodes.role not in scrubbing:
            yield _KEY, f"nodes with the role {spec.nodes.role} have no jobs before which GPUs are scrubbed", "false"
        if spec.gpus.sharing != "exclusive":
            yield (
                _KEY,
                "GPUs are shared with other nodes, whose jobs would find no memory meanwhile",
                ("false, or gpus.sharing: exclusive"),
            )
        if spec.slurm.shards_per_gpu:
            yield _KEY, "jobs of several people are on a GPU at once by shards", "false, or slurm.shards_per_gpu: null"

    return SpecRule(reads=(_KEY, "nodes.role", "gpus.sharing", "slurm.shards_per_gpu"), find=find)
