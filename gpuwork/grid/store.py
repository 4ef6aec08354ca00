"""The folder that holds a project's runs.

    runs/param_001/param2val.yaml                    values, and their hash
    runs/param_001/2026-11-22-16-40-12_num1/         one run: log.txt, SERIES.csv, saves/, done.json written last
    runs/.code/SHA256/                               frozen copies of the project
    runs/.submissions/2026-11-22-16-40-12/           submission.json: which runs were handed in together

What is here was written by jobs too, so it is read with a limit and no link is followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import yaml

from gpuprov.shapes.base import read
from gpuprov.shapes.grids import VALUES, GridDone, is_run_name
from gpuprov.shapes.limits import MIB
from gpuwork.errors import StoreError
from gpuwork.grid.values import as_plain, as_value, hash_values
from gpuwork.untrusted_files import names_in, read_limited, what_is

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuwork.grid.values import ParameterValue

CODE: Final = ".code"
SUBMISSIONS: Final = ".submissions"
SUBMISSION: Final = "submission.json"
DONE: Final = "done.json"
_PARAM_NAME: Final = re.compile(r"param_([0-9]{3,6})")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_DONE: Final = 64 * 1024
_HASH_LINE: Final = re.compile(rb"# values ([0-9a-f]{64})\n")

ParamRunState = Literal["done", "failed", "open"]


@dataclass(frozen=True, kw_only=True)
class ParamRun:
    """One run of a combination: `name` is its folder, relative to the store."""

    name: str
    state: ParamRunState
    code: str = ""

    @property
    def number(self) -> int:
        """Which run of its combination it is."""
        return int(self.name.rpartition("_num")[2])


@dataclass(frozen=True, kw_only=True)
class Param:
    """One combination of values and its runs, in their order."""

    name: str
    values_hash: str
    runs: tuple[ParamRun, ...] = ()


def list_params(store: Path) -> list[Param]:
    """Every combination with its runs, in the order of their numbers."""
    found = [(int(match[1]), path) for path in _entries(store) if (match := _PARAM_NAME.fullmatch(path.name))]
    params = []
    for _, folder in sorted(found):
        head = _HASH_LINE.match(read_limited(folder / VALUES, limit=MIB, within=store) or b"")
        if head:
            runs = [_run(path) for path in _runs(folder) if is_run_name(f"{folder.name}/{path.name}")]
            ordered = tuple(sorted(runs, key=lambda run: run.number))
            params.append(Param(name=folder.name, values_hash=head[1].decode(), runs=ordered))
    return params


def highest_number(store: Path) -> int:
    """Of all folders of combinations, those that cannot be read included."""
    return max((int(match[1]) for path in _entries(store) if (match := _PARAM_NAME.fullmatch(path.name))), default=0)


def read_done(run: Path) -> GridDone | None:
    """The end of a run, None if it has not come to one; what is no such document counts as none."""
    content = read_limited(run / DONE, limit=_MOST_DONE, within=run.parents[1])
    try:
        return None if content is None else read(GridDone, content)
    except ValueError:
        return None


def render_values(values: Mapping[str, ParameterValue], *, param_name: str) -> str:
    """The text of a `param2val.yaml`."""
    plain = {"param_name": param_name, **{name: as_plain(value) for name, value in values.items()}}
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110)
    return f"# values {hash_values(values)}\n{text}"


def read_values(param: Path) -> dict[str, ParameterValue]:
    """The values of a combination.

    Raises:
        StoreError: The file is missing, or says other values than it was written with.
    """
    path = param / VALUES
    content = read_limited(path, limit=MIB, within=param.parent) or b""
    match = _HASH_LINE.match(content)
    try:
        # An alias can stand for more than any memory holds; what is written here has none
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(content, Loader=_LOADER)):
            raise ValueError("has an alias")  # noqa: TRY301
        plain = yaml.load(content, Loader=_LOADER)  # noqa: S506
        values = {str(name): as_value(value) for name, value in plain.items() if name != "param_name"}
    except (yaml.YAMLError, AttributeError, TypeError, ValueError, RecursionError):
        values, match = {}, None
    if match is None or hash_values(values) != match[1].decode():
        raise StoreError(
            f"{path} was changed or removed",
            evidence="its values do not match the hash in its first line",
            fix=f"rm -r {param}; then run the grid again",
        )
    return values


def _entries(store: Path) -> list[Path]:
    try:
        return [store / name for name in names_in(store, folders=True)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(
            "the folder of the grid's runs cannot be read",
            evidence=f"{store} {what_is(store) or f'is a file: {error.strerror}'}",
            fix=f"ls -ld {store}; if its content is not needed: mv {store} {store}.old",
        ) from error


def _runs(folder: Path) -> list[Path]:
    """What is in the folder of a combination; nothing where a job made it unreadable."""
    try:
        return [folder / name for name in names_in(folder, within=folder.parent, folders=True)]
    except OSError:
        return []


def _run(path: Path) -> ParamRun:
    name = f"{path.parent.name}/{path.name}"
    done = read_done(path)
    if done is None:
        return ParamRun(name=name, state="open")
    return ParamRun(name=name, state=done.state, code=done.code)
