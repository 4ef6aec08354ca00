"""In a process of its own: calls `main` of a frozen project with the values of a run."""

from __future__ import annotations

from pathlib import Path

from gpuwork.grid.series import as_series, write_series
from gpuwork.grid.store import read_values
from gpuwork.leash import die_with
from gpuwork.own_modules import import_own


def main(run: str, code: str, module: str, parent: str) -> None:
    """Call `main(param2val)` and write the series that it returns.

    Args:
        run: The folder of the run.
        code: The frozen copy.
        module: The module with `main`.
        parent: The id of the process that started this one: when it dies, so does this one.
    """
    die_with(int(parent))
    folder = Path(run)
    values = read_values(folder.parent)
    saves = folder / "saves"
    source = Path(code, *module.split(".")[:-1])
    job = import_own(module, *dict.fromkeys((code, str(source))))
    returned = job.main(
        {
            **values,
            "param_name": folder.parent.name,
            "job_name": folder.name,
            "project_path": code,
            "save_path": str(saves),
        }
    )
    write_series(as_series(returned), folder)
