"""What `gpuprov gate up` compiles for the runtime: which engines to ask, and which GPUs there are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.runtime.engines import Place

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


NAME: Final = "settings.json"
VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What holds for all containers of a daemon.

    Attributes:
        engines: To ask for leases.
        simulation: What the NVML of simulated GPUs answers; None where they are real.
        data_root: The folder of the daemon's volumes, and of its files for containers.
    """

    engines: tuple[Place, ...]
    data_root: str = ""
    simulation: Mapping[str, Any] | None = None

    @property
    def own(self) -> tuple[Place, ...]:
        """That daemon, if it is Docker's: the first of its kind."""
        return tuple(place for place in self.engines if place.engine == "docker")[:1]


def render_settings(settings: Settings) -> str:
    """As the runtime reads it."""
    return json.dumps({"version": VERSION, **asdict(settings)}, indent=2, sort_keys=True) + "\n"


def read_settings(folder: Path) -> Settings:
    """The settings in the runtime's folder.

    Raises:
        HostNotReady: It is not there, or another gpuprov wrote it.
    """
    try:
        said: dict[str, Any] = json.loads((folder / NAME).read_text(encoding="utf-8"))
        _require_version(said.pop("version"))
        places = [
            Place(engine=one["engine"], sockets=tuple(one["sockets"]), installed=one["installed"])
            for one in said.pop("engines")
        ]
        return Settings(engines=tuple(places), **said)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HostNotReady(
            "the runtime's settings cannot be read", evidence=f"{folder / NAME}: {error}", fix="sudo gpuprov gate up"
        ) from error


def _require_version(version: object) -> None:
    if version != VERSION:
        raise ValueError(f"it is of version {version}, not {VERSION}")
