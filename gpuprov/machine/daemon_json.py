"""Docker's daemon.json with the runtime in it, and without: keys of others stay as they are. Pure functions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RUNTIME: Final = "gpuprov"
DEFAULT_RUNTIME: Final = "gpuprov-default"  # the same program; its name says that nobody asked for it by name
OURS: Final = (RUNTIME, DEFAULT_RUNTIME)
_RUNTIMES: Final = "runtimes"
_DEFAULT: Final = "default-runtime"


def read_settings(text: str, *, path: Path) -> dict[str, Any]:
    """What a daemon.json says; an empty file says nothing.

    Raises:
        HostNotReady: It is no JSON object.
    """
    try:
        said = json.loads(text or "{}")
        said.get(_RUNTIMES, {}).keys()
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise HostNotReady(
            f"{path} cannot be read", evidence=str(error), fix=f"mend it: dockerd --validate --config-file {path}"
        ) from error
    return dict(said)


def with_runtime(settings: Mapping[str, Any], places: Mapping[str, str], *, default: bool) -> dict[str, Any]:
    """The same, with the runtime.

    Args:
        settings: What is there.
        places: The program, by the name of the runtime.
        default: Whether it is to run what names no runtime.

    Raises:
        HostNotReady: Another runtime is the default one.
    """
    others = without_runtime(settings)
    taken = others.get(_DEFAULT, "runc")
    if default and taken != "runc":
        raise HostNotReady(
            f"the default runtime of Docker is {taken}",
            evidence=f'daemon.json has "{_DEFAULT}": "{taken}", which stays as it is',
            fix=f'remove "{_DEFAULT}" from daemon.json, or leave out --default and use --runtime {RUNTIME}',
        )
    names = OURS if default else (RUNTIME,)
    runtimes = {**others.get(_RUNTIMES, {}), **{name: {"path": places[name]} for name in names}}
    return {**others, _RUNTIMES: runtimes, **({_DEFAULT: DEFAULT_RUNTIME} if default else {})}


def without_runtime(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same, without it."""
    kept = dict(settings)
    if kept.get(_DEFAULT) in OURS:
        del kept[_DEFAULT]
    runtimes = {name: value for name, value in kept.get(_RUNTIMES, {}).items() if name not in OURS}
    if runtimes or (_RUNTIMES in kept and not kept[_RUNTIMES]):
        kept[_RUNTIMES] = runtimes
    else:
        kept.pop(_RUNTIMES, None)
    return kept


def render_settings(settings: Mapping[str, Any]) -> str:
    """As people read it."""
    return json.dumps(settings, indent=4) + "\n"
