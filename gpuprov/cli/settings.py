"""The engine and the cluster of verbs that name none: of the environment, or else of this user's settings file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.names import check_cluster_name, imply_cluster
from gpuprov.core.own_folders import own_folder
from gpuprov.shapes.choices import DEFAULT_CLUSTER, ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

ENGINE: Final = "GPUPROV_ENGINE"
CLUSTER: Final = "GPUPROV_CLUSTER"
_MOST_BYTES: Final = 64_000


class DecidingFile(click.Path):
    """The type of a file that says itself which engine and which cluster: where it is named, nothing is implied."""


def implied_engine(context: click.Context, parameter: click.Parameter, typed: str | None) -> str | None:
    """A callback of `--engine`: what was typed, or else what is implied; a `DecidingFile` decides by itself."""
    if _is_settled(context, parameter):
        return typed
    engine = _quiet_while_completing(context, lambda: engine_of(os.environ))
    if engine and context.obj is not None:
        context.obj.implied[engine] = _source(ENGINE)
    return engine


def implied_cluster(context: click.Context, parameter: click.Parameter, typed: str | None) -> str | None:
    """The same of `--cluster`, or of the name of a cluster."""
    settled = _is_settled(context, parameter)
    implied = None if settled else _quiet_while_completing(context, lambda: cluster_of(os.environ))
    cluster = implied or (None if typed is None else check_cluster_name(typed))
    if cluster and context.obj is not None:
        context.obj.cluster = cluster  # what is wrong with the next argument names it
        if implied:
            context.obj.implied[implied] = _source(CLUSTER)
    return cluster


def engine_of(environment: Mapping[str, str]) -> str | None:
    """The engine that is implied; None where none is.

    Raises:
        UsageError: There is no such engine, or the settings file is wrong.
    """
    name = environment.get(ENGINE)
    if not name:
        return _read(environment).get("engine")
    if name not in ENGINES:
        raise UsageError(
            f"{ENGINE} names no engine",
            evidence=f"{ENGINE}={name}; engines: {', '.join(ENGINES)}",
            fix=f"unset {ENGINE}",
        )
    return name


def cluster_of(environment: Mapping[str, str]) -> str | None:
    """The cluster that is implied; None where none is.

    Raises:
        UsageError: There can be no such cluster, or the settings file is wrong.
    """
    name = environment.get(CLUSTER)
    if not name:
        return _read(environment).get("cluster")
    try:
        return check_cluster_name(name)
    except UsageError as error:
        evidence = f"{CLUSTER}={name}; {error.evidence}"
        raise UsageError(f"{CLUSTER} is not a cluster name", evidence=evidence, fix=f"unset {CLUSTER}") from error


def name_what_is_implied() -> None:
    """Have commands in messages name the cluster wherever the one that is implied is another."""
    try:
        imply_cluster(cluster_of(os.environ) or DEFAULT_CLUSTER)
    except GpuprovError:  # which verbs that need it tell
        imply_cluster("")


def settings_file(environment: Mapping[str, str]) -> Path:
    """Beside the inventory of hosts."""
    return own_folder("XDG_CONFIG_HOME", ".config", environment) / "gpuprov/settings.yaml"


def _source(variable: str) -> str:
    """Where a name that nobody typed is from."""
    return variable if os.environ.get(variable) else str(settings_file(os.environ))


def _is_settled(context: click.Context, parameter: click.Parameter) -> bool:
    if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
        return True
    deciding = (one.name for one in context.command.params if isinstance(one.type, DecidingFile))
    return any(context.params.get(name or "") is not None for name in deciding)


def _quiet_while_completing(context: click.Context, implied: Callable[[], str | None]) -> str | None:
    try:
        return implied()
    except GpuprovError:
        if context.resilient_parsing:
            return None
        raise


def _read(environment: Mapping[str, str]) -> Mapping[str, Any]:
    path = settings_file(environment)
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _refuse(path, str(error)) from error
    if len(text) > _MOST_BYTES:
        raise _refuse(path, f"it has more than {_MOST_BYTES} bytes")
    from gpuprov.shapes.faults import find_faults
    from gpuprov.shapes.settings import Settings
    from gpuprov.shapes.written import Manner, read_yaml

    told, faults = read_yaml(text, file=str(path), manner=Manner())
    values: Mapping[str, Any] = {}
    if told is not None and not isinstance(told.content, dict):
        raise _refuse(path, f"{path}:{told.line}: is no mapping, such as: cluster: lab")
    if told is not None:
        values, more = find_faults(Settings, told, file=str(path))
        faults = [*faults, *more]
    if faults:
        raise _refuse(path, "\n".join(map(str, faults)))
    return values


def _refuse(path: Path, evidence: str) -> UsageError:
    return UsageError("the settings file is not valid", evidence=evidence, fix=f"edit {path}, or remove it")
