"""What the messages of the predecessor's master do."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.anneal import Failure
from gpuprov.shapes.base import write
from gpuprov.shapes.limits import MIB
from gpuwork.anneal.model_file import MOST_BYTES, parse_model
from gpuwork.anneal.order import write_annealed_run
from gpuwork.anneal.part import Interrupted, PartFailed, run_part
from gpuwork.anneal.part_record import RESULT, read_failure
from gpuwork.anneal.result import read_result
from gpuwork.anneal.settings import check_settings
from gpuwork.anneal.validator import find_model_faults
from gpuwork.errors import WorkError
from gpuwork.machine import describe_machine
from gpuwork.where import find_where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.anneal_settings import AnnealSettings
    from gpuwork.anneal.model_file import ModelFile

PONG: Final = "pong"
MOST_RUNS: Final = 60  # one of them runs, the others wait
MOST_RESULT: Final = 500 * MIB  # Redis takes 512 MiB
_FILE: Final = "model.py"
_NUMBERS: Final = ("dimensions", "distribution", "precision")


class Service:
    """A worker with at most one model, which runs one thing at a time.

    Attributes:
        stop: Ends what runs.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._model: ModelFile | None = None
        self._numbers: dict[str, object] = {}
        self._running = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST_RUNS)

    def ping(self) -> str:
        """Answered while chains run, too."""
        return PONG

    def stats(self) -> dict[str, Any]:
        """Processors, memory and GPUs."""
        return describe_machine(next(iter(find_where().gpus), ""))

    def deploy_model(self, model: Mapping[str, object]) -> dict[str, Any]:
        """Take a model in the place of the one before.

        Args:
            model: `source`, the text of its file, and `dimensions`, `distribution` and `precision`, unless the text
                says them.

        Returns:
            `failure`, which is None, or says everything that is wrong with the model; then the one before stays.
        """
        unknown = [str(name)[:50] for name in model if name not in ("source", *_NUMBERS)]
        source = model.get("source")
        if unknown or not isinstance(source, str) or len(source) > MOST_BYTES:
            told = f"it has {', '.join(unknown)}" if unknown else "its source is not text, or is too long"
            return {"failure": _refused("NoModel", f"this is not a model: {told}")}
        found, faults = parse_model(source, file=_FILE)
        faults += find_model_faults(found) if found is not None else []
        if found is None or faults:
            return {"failure": _refused("FaultyModel", "\n".join(map(str, faults)))}
        self._model, self._numbers = found, {name: model[name] for name in _NUMBERS if name in model}
        return {"failure": None}

    def run(self, settings: Mapping[str, object]) -> dict[str, Any]:
        """Anneal the model that was deployed.

        Args:
            settings: Those of a configuration.

        Returns:
            `values` and `states` as arrays, and `failure`, which is None; or both empty, and why.
        """
        model = self._model
        if model is None:
            return _without(_refused("NoModel", "no model was deployed; send one by deploy_model first"))
        written = {**model.numbers, **{name: (value, None) for name, value in {**self._numbers, **settings}.items()}}
        checked, faults = check_settings({str(name): value for name, value in written.items()}, file="run")
        if checked is None:
            return _without(_refused("FaultySettings", "\n".join(map(str, faults))))
        if not self._places.acquire(blocking=False):
            return _without(_refused("Busy", f"{MOST_RUNS - 1} runs wait for their turn already; send this one later"))
        try:
            with self._running:
                return self._anneal(model, checked)
        finally:
            self._places.release()

    def _anneal(self, model: ModelFile, settings: AnnealSettings) -> dict[str, Any]:
        if self.stop.is_set():
            return _without(_STOPPED)
        place = Path(tempfile.mkdtemp(prefix="gpuwork-anneal-"))
        try:
            run = write_annealed_run(place / "run", name="model", model=model.text, settings=settings, parts=1)
            try:
                run_part(run, 0, stop=self.stop)
                result = read_result(run.part(0) / RESULT)
            except PartFailed as error:
                failure = read_failure(run.part(0)) or Failure(type="error", exception="Killed", message=str(error))
                return _without(write(failure))
            except Interrupted:
                return _without(_STOPPED)
            except (WorkError, OSError, ValueError) as error:
                return _without({"type": "error", "exception": type(error).__name__, "message": str(error)})
            size = result.values.nbytes + result.states.nbytes
            if size > MOST_RESULT:
                told = f"the result has {size:,} bytes and can have {MOST_RESULT:,}; ask for fewer chains in each run"
                return _without(_refused("TooLarge", told))
            return {"values": result.values, "states": result.states, "failure": None}
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _refused(exception: str, message: str) -> dict[str, str]:
    return {"type": "refused", "exception": exception, "message": message}


_STOPPED: Final = _refused("Interrupted", "the worker was stopped")


def _without(failure: Mapping[str, object]) -> dict[str, Any]:
    """A result that is none."""
    return {"values": [], "states": [], "failure": dict(failure)}
