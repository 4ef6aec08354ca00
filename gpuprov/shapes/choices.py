"""Words of which one is chosen, in specs and documents alike; without msgspec, as what every verb loads needs them."""

from __future__ import annotations

from typing import Final, Literal, get_args

Sharing = Literal["shared", "exclusive"]
AccessName = Literal["none", "raw", "simulated", "cdi", "nvidia-runtime"]
Engine = Literal["lxd", "incus", "docker"]
GpuMode = Literal["auto", "real", "simulated"]
Network = Literal["both", "nat", "private"]
JobState = Literal["waiting", "running", "done", "failed", "cancelled", "lost"]
Restart = Literal["no", "on-failure", "unless-stopped", "always"]
RoleName = str  # which there are, roles/registry.py says

ENGINES: Final[tuple[Engine, ...]] = get_args(Engine)
RESTARTS: Final[tuple[Restart, ...]] = get_args(Restart)
JOB_STATES: Final[tuple[JobState, ...]] = get_args(JobState)
DEFAULT_ENGINE: Final[Engine] = "lxd"  # for what is new

# What is meant where nothing is said
DEFAULT_CLUSTER: Final = "lab"
DEFAULT_BRIDGE: Final = "gpbr0"
DEFAULT_PRIVATE_BRIDGE: Final = "gpbr1"

CLUSTER_RULE: Final = "1 to 32 of a-z, 0-9 and -; starts with a letter, does not end with -"
