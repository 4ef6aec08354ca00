"""Memory of GPUs between people: what Slurm runs before a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.assets import get_asset
from gpuprov.drivers.base import File
from gpuprov.roles.slurm.facts import NAME, slurm_path

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import ClusterSpec


def scrub_programs(spec: ClusterSpec) -> tuple[File, ...]:
    """The prolog of jobs, where the spec wants it."""
    if not spec.gpus.scrub:
        return ()
    text = (get_asset("templates") / NAME / "prolog.sh").read_bytes()
    return (File(path=slurm_path("prolog"), content=text, mode=0o755),)
