"""MIG on the GPUs of a host, real or simulated: asked and changed within a limit."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.core.execution import run
from gpuprov.core.whole_file import replace_file
from gpuprov.gpu.mig_config import MigGpu, MigPart, MigProfile
from gpuprov.gpu.mig_library import NO_PERMISSION, serve
from gpuprov.gpu.nvml_reader import LIBRARY_NOT_FOUND, Facts, NvmlFailed
from gpuprov.gpu.simulated_mig import STATE, SimulatedMig, render_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.gpu.models import HostGpus

    Serve = Callable[[Facts], Any]

LIMIT_S: Final = 120.0  # for a GPU to be reset with its mode, and eight to be asked
_UNKNOWN: Final = 999
_START: Final = "import sys; sys.path[:0] = sys.argv[1:3]; from gpuprov.gpu.mig_library import main; main()"


class HostMig:
    """MIG on one host's GPUs.

    Args:
        host: Its GPUs.
        root: Where its file system begins.
        ask: Serves requests of mig_library in place of the real NVML; tests hand it in.
    """

    def __init__(self, host: HostGpus, root: Path, *, ask: Serve | None = None) -> None:
        self._root = root
        self._document = None if host.document is None else copy.deepcopy(dict(host.document))
        library = None if self._document is None else SimulatedMig(self._document)
        self._serve: Serve = ask or (_ask_child if library is None else lambda request: serve(request, library))

    def read(self) -> tuple[MigGpu, ...]:
        """All GPUs, in NVML's order.

        Raises:
            HostNotReady: NVML does not answer.
        """
        return tuple(map(_gpu, self._ask(do="read")))

    def clear(self, index: int) -> None:
        """Destroy all parts of a GPU. Raises HostNotReady."""
        self._ask(do="clear", index=index)

    def set_mode(self, index: int, *, enabled: bool) -> bool:
        """Turn MIG on or off; tells whether it is so now, or after the next reset. Raises HostNotReady."""
        return bool(self._ask(do="mode", index=index, enabled=enabled))

    def create(self, index: int, parts: list[tuple[int, int, int]]) -> None:
        """Cut parts: of each the id of its profile, its beginning and its length. Raises HostNotReady."""
        self._ask(do="create", index=index, parts=parts)

    def _ask(self, **request: Any) -> Any:  # noqa: ANN401 - as mig_library answers
        try:
            said = self._serve(request)
        except NvmlFailed as failure:
            if failure.code == NO_PERMISSION:
                again = "sudo gpuprov host mig export; sudo gpuprov host mig apply FILE"
                raise HostNotReady("parts of MIG are for root alone", evidence=str(failure), fix=again) from failure
            raise HostNotReady(
                "NVML did not do what was asked", evidence=str(failure), fix="nvidia-smi; dmesg | grep NVRM"
            ) from failure
        if self._document is not None and request["do"] != "read":
            self._keep(self._document)
        return said

    def _keep(self, document: Facts) -> None:
        path = self._root / STATE
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            replace_file(path, render_state(document), mode=0o644)
        except OSError as error:
            raise HostNotReady(
                f"/{STATE} cannot be written, in which it stands how SIMULATED GPUs are cut",
                evidence=str(error),
                fix="sudo gpuprov host mig apply FILE",
            ) from error


def _ask_child(request: Facts) -> Any:  # noqa: ANN401 - as mig_library answers
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise NvmlFailed(code=LIBRARY_NOT_FOUND, call="import pynvml", text="No module named 'pynvml'")
    places = [str(Path(__file__).parents[2]), str(Path(found.origin).parent)]
    try:
        answer = run(
            [sys.executable, "-I", "-S", "-c", _START, *places],
            timeout_s=LIMIT_S,
            stdin=json.dumps(request),
            check=False,
        )
    except TimedOut as error:
        raise NvmlFailed(code=_UNKNOWN, call="NVML", text=f"no response within {LIMIT_S:g} s") from error
    try:
        said = json.loads(answer.stdout)
        if "failed" not in said:
            return said["said"]
        failure = NvmlFailed(**said["failed"])
    except (ValueError, KeyError, TypeError) as error:
        text = f"the query ended with status {answer.exit_code}: {answer.stderr.strip()[-300:] or 'no output'}"
        raise NvmlFailed(code=_UNKNOWN, call="NVML", text=text) from error
    raise failure


def _gpu(told: Facts) -> MigGpu:
    enabled, pending = told["mode"] or (None, None)
    return MigGpu(
        index=told["index"],
        device_id=told["device_id"],
        model=told["model"],
        enabled=enabled,
        pending=pending,
        profiles=tuple(
            MigProfile(**{**one, "places": tuple((start, size) for start, size in one["places"])})
            for one in told["profiles"]
        ),
        parts=tuple(
            MigPart(profile=one["profile"], place=(one["place"][0], one["place"][1]), compute=tuple(one["compute"]))
            for one in told["parts"]
        ),
        processes=tuple(told["processes"]),
    )
