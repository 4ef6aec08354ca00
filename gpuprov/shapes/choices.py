"""Words of which one is chosen, in specs and documents alike; without msgspec, as what every verb loads needs them."""

from __future__ import annotations

from typing import Literal

Sharing = Literal["shared", "exclusive"]
AccessName = Literal["none", "raw", "simulated", "cdi", "nvidia-runtime"]
Engine = Literal["lxd", "incus", "docker"]
