"""`gpuprov host mig`: how this host's GPUs are cut by MIG, by files of NVIDIA's mig-parted."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import gpu_mode_option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.gpu.mig_config import MigGpu, MigWish
    from gpuprov.shapes.choices import GpuMode

APPLIED = "Selected MIG configuration currently applied"
_STDIN_BYTES = 2**21

_file_argument: Callable[[Any], Any] = click.argument("file", required=False)
_file_option: Callable[[Any], Any] = click.option(
    "-f", "--config-file", metavar="FILE", help="The same as FILE, as mig-parted has it; `-` is stdin."
)
_config_option: Callable[[Any], Any] = click.option(
    "-c", "--selected-config", metavar="NAME", default="", help="Which configuration of the file.  [default: the only]"
)


@command(gpu_mode_option)
def export(session: Session, gpu_mode: str | None) -> Result:
    """Print how this host's GPUs are cut, as a file of mig-parted; changes nothing."""
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.gpu.mig_config import export as as_file
    from gpuprov.lifecycle.mig import open_mig
    from gpuprov.shapes.base import write
    from gpuprov.shapes.mig import MigExport

    gpus = get_gpus(session.host, _mode(gpu_mode), reporter=session.reporter)
    file = as_file(open_mig(session.host, gpus).read())
    document = MigExport(host=session.host.name, simulated=gpus.simulated, file=file)
    text = _render(write(file))
    return Result(document=document, text=f"# SIMULATED\n{text}" if gpus.simulated else text)


def _render(file: Mapping[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(file, sort_keys=False, default_flow_style=None))


@command(_file_argument, _file_option, _config_option, gpu_mode_option)
def check(session: Session, gpu_mode: str | None, **given: Any) -> Result:  # noqa: ANN401 - click's own
    """Say whether this host's GPUs are cut as a configuration of FILE says; changes nothing.

    Exits with 1 if one is cut otherwise. FILE is a file of mig-parted, unchanged; `-` is stdin.
    """
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.gpu.mig_config import find_differences
    from gpuprov.lifecycle.mig import open_mig
    from gpuprov.shapes.mig import MigAssertion

    config, wishes_of = _read(**given)
    gpus = get_gpus(session.host, _mode(gpu_mode), reporter=session.reporter)
    seen = open_mig(session.host, gpus).read()
    differ = tuple(find_differences(wishes_of(seen), seen).values())
    document = MigAssertion(
        host=session.host.name, simulated=gpus.simulated, config=config, applied=not differ, differences=differ
    )
    refused = ["assertion failure: selected configuration not currently applied", *differ]
    text = "\n".join(refused) if differ else APPLIED
    return Result(document=document, text=text, code=1 if differ else 0)


@command(_file_argument, _file_option, _config_option, gpu_mode_option)
def apply(session: Session, gpu_mode: str | None, **given: Any) -> Outcome:  # noqa: ANN401 - click's own
    """Cut this host's GPUs as a configuration of FILE says; a second run changes nothing. Needs root.

    Refused before anything changes if a node, a container or a process has one of the GPUs that would change. FILE is
    a file of mig-parted, unchanged; `-` is stdin. Parts of GPUs are gone after a reboot: apply the file again then.
    """
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.lifecycle.mig import apply_mig

    _, wishes_of = _read(**given)
    get_gpus(session.host, _mode(gpu_mode), reporter=session.reporter)  # which says that they are simulated, or lost
    return apply_mig(session.host, _mode(gpu_mode), wishes_of, reporter=session.reporter)


def _mode(typed: str | None) -> GpuMode:
    return cast("GpuMode", typed or "auto")


def _read(
    file: str | None, config_file: str | None, selected_config: str
) -> tuple[str, Callable[[Sequence[MigGpu]], Mapping[int, MigWish]]]:
    """The configuration's name, and what it wants of GPUs."""
    from gpuprov.core.errors import UsageError
    from gpuprov.gpu.mig_config import choose_config, read_mig_file, wishes

    path = file or config_file
    if not path or (file and config_file):
        raise UsageError(
            "name one file of mig-parted",
            evidence=f"{file} and {config_file}" if path else "none is named",
            fix="gpuprov host mig export    # writes such a file",
        )
    name = "stdin" if path == "-" else path
    try:
        text = sys.stdin.buffer.read(_STDIN_BYTES) if path == "-" else _head(Path(path))
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read", evidence=error.strerror or str(error), fix=f"ls -l {name}"
        ) from error
    again = f"{click.get_current_context().command_path} {quote(path)}"
    config, entries = choose_config(read_mig_file(text, name=name), selected_config, name=name, again=again)
    return config, partial(wishes, entries, config=config)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_STDIN_BYTES)
