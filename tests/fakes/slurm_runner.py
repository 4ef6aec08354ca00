"""Runs what was handed in to the stand-in for sbatch, in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

from tests.fakes.slurm_program import listed, put, remove

LOOK_S = 0.01


def in_background(runner: Runner) -> None:
    """Run an array in a process that nobody waits for, and that holds nothing of this one's."""
    if os.fork():
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in range(3):
        os.dup2(nothing, handle)
    try:
        runner.run()
    finally:
        os._exit(0)


class Runner:
    """An array: the folder of the stand-in, and what sbatch was told."""

    def __init__(self, folder: str, array: int, size: int, told: dict[str, str], argv: list[str], slots: int) -> None:
        self._folder, self._array, self._size = folder, array, size
        self._told, self._argv, self._slots = told, argv, slots

    def run(self) -> None:
        """Until none of its tasks is left."""
        running: dict[int, subprocess.Popen[bytes]] = {}
        after = self._told.get("dependency", "").rpartition(":")[2]
        while after and any(name.startswith(f"{after}_") for name in listed(self._folder)):
            time.sleep(LOOK_S)
        while left := [index for index in range(self._size) if os.path.exists(self._task(index))]:  # noqa: PTH110
            for index in left:
                if index in running and running[index].poll() is not None:
                    self._end(index, running.pop(index))
                elif index not in running and len(running) < self._slots and not self._is_held():
                    running[index] = self._start(index)
                    put(self._folder, f"{self._array}_{index}", f"RUNNING {running[index].pid}")
            time.sleep(LOOK_S)

    def _task(self, index: int) -> str:
        return f"{self._folder}/tasks/{self._array}_{index}"

    def _is_held(self) -> bool:
        return os.path.exists(f"{self._folder}/held")  # noqa: PTH110

    def _end(self, index: int, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):  # as Slurm does once the script has ended
            os.killpg(process.pid, signal.SIGKILL)
        requeue = f"{self._folder}/requeue-{self._array}_{index}"
        if os.path.exists(requeue):  # noqa: PTH110
            remove(requeue)
            put(self._folder, f"{self._array}_{index}", "PENDING")
        else:
            remove(self._task(index))

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        path = f"{self._folder}/programs:/usr/bin:/bin"
        env = {"PATH": path, "SLURM_ARRAY_JOB_ID": str(self._array), "SLURM_ARRAY_TASK_ID": str(index)}
        if "gres" in self._told:
            env["CUDA_VISIBLE_DEVICES"] = "0"
        output = self._told["output"].replace("%A", str(self._array)).replace("%a", str(index))
        with open(output, "ab") as file:  # noqa: PTH123
            return subprocess.Popen(
                ["/bin/sh", *self._argv], cwd=self._told["chdir"], env=env, stdin=subprocess.DEVNULL, stdout=file,
                stderr=file, start_new_session=True,
            )  # fmt: skip
