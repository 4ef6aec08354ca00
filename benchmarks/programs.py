"""Times CUDA programs on this machine without a GPU: a round over four workers, 1 GiB of data, a worker that is killed.

Usage: python -m benchmarks.programs [--rounds 300] [--mib 1024]
       python -m benchmarks.programs --csv-gib 5    # a table of this size from its file to its sums, and the memory

The baselines are plain Dask, in turn with ours in one run, with the same TLS: a graph of four tasks and one that merges
their results; and `Client.scatter` of the same bytes. Prints a table in Markdown; docs/benchmarks.md holds one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import describe
from gpuwork.programs.certificate import make_certificate, read_security
from gpuwork.programs.lead import lead
from gpuwork.programs.meet import settle_dask
from gpuwork.programs.prepare import prepare_run
from gpuwork.programs.toolkit import find_toolkit
from tests.fakes.programs import CUDA, PYTHON, write_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client

    from gpuprov.shapes.program_runs import ProgramResult, Progress

WORKERS = 4
COLUMNS = 16
EMPTY = CUDA.replace(CUDA[CUDA.index("    for (long row") : CUDA.index("    result->rows +=")], "")
SLOW = EMPTY.replace("    result->rows +=", "    usleep(20000);\n    result->rows +=").replace(
    "#include <cuda_runtime.h>", "#include <cuda_runtime.h>\n#include <unistd.h>"
)
RUNNER = """\
from ctypes import c_double
from columns import Dataset, GlobalParams
def make_params(settings):
    return GlobalParams(max_iterations=settings["max_iterations"])
def make_dataset(settings, table):
    rows = settings["rows"]
    return Dataset(rows=rows, columns=16, values=(c_double * (rows * 16))())
"""


class Ours:
    """A program, run again and again."""

    def __init__(self, folder: Path, cuda: str) -> None:
        """Write it."""
        config = "info: {name: columns, version: '1', py_c_extention: false}\nsources: {python: columns.py, "
        config += "header: columns.h, cuda: columns.cu, runner: runner.py}\n"
        self._folder = folder
        self._program = write_program(folder / "program", cuda=cuda, python=PYTHON, runner=RUNNER, config=config)

    def run(self, rounds: int, rows: int, *, kill: bool = False) -> tuple[list[float], ProgramResult]:
        """When the run began to distribute its data and when each round ended; and the result."""
        moments: list[float] = []
        with tempfile.TemporaryDirectory(dir=self._folder) as place:
            settings = {"max_iterations": rounds, "rows": rows}
            run = prepare_run(
                *(self._program, None), settings=settings, workers=WORKERS, local=True,
                store=self._folder / "store", run=Path(place), toolkit=find_toolkit(),
            )  # fmt: skip

            def tell(told: Progress) -> None:
                moments.append(time.perf_counter())
                if kill and told.iterations == rounds // 2:
                    threading.Thread(target=kill_worker, args=(place,)).start()

            result = lead(run, gpus=[None] * WORKERS, tell=tell)
        return moments, result


def kill_worker(run: str) -> None:
    """Kill worker 1 of a run."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            argv = path.read_bytes().decode(errors="replace").split("\0")
            if run in argv and "worker" in argv and argv[-2] == "1":
                os.kill(int(path.parent.name), signal.SIGKILL)


@contextmanager
def plain_dask(folder: Path) -> Iterator[Client]:
    """Dask's own scheduler and four of its workers, with TLS."""
    from distributed import Client, LocalCluster

    (folder / "dask").mkdir(exist_ok=True)
    with suppress(FileExistsError):
        make_certificate(folder / "dask")
    security = read_security(folder / "dask")
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "memory_limit": 0}
    with (
        LocalCluster(n_workers=WORKERS, security=security, protocol="tls", **options) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        yield client


def work(state: bytes, number: int) -> tuple[int, int]:
    """As good as nothing."""
    return number, len(state)


def merge(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """As good as nothing."""
    return parts


def dask_rounds(client: Client, rounds: int) -> list[float]:
    """Seconds of each round, as a graph."""
    import dask

    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    state, seconds = os.urandom(256), []
    for number in range(rounds):
        begun = time.perf_counter()
        parts = []
        for place, address in enumerate(addresses):
            with dask.annotate(workers=[address], allow_other_workers=True):
                parts.append(dask.delayed(work)(state, place, dask_key_name=f"work-{number}-{place}"))
        merged = dask.delayed(merge)(parts, dask_key_name=f"merge-{number}")
        client.compute(merged, optimize_graph=False).result()
        seconds.append(time.perf_counter() - begun)
    return seconds


def dask_scatter(client: Client, size: int) -> float:
    """Seconds until each worker has its part of so many bytes."""
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    parts = [bytearray(size // WORKERS) for _ in addresses]
    begun = time.perf_counter()
    kept = [client.scatter(part, workers=[at], hash=False) for part, at in zip(parts, addresses, strict=True)]
    seconds = time.perf_counter() - begun
    del kept
    return seconds


def write_large_table(path: Path, gib: int) -> list[float]:
    """The sums of the columns of a table that has as many bytes as CSV and as doubles."""
    digits = random.Random(5)
    lines = [[digits.randrange(100_000) for _ in range(COLUMNS)] for _ in range(1024**2 // 8 // COLUMNS)]
    block = "".join(",".join(f"0.{cell:05}" for cell in line) + "\n" for line in lines).encode()
    with path.open("wb") as file:
        for _ in range(gib * 1024):
            file.write(block)
    return [sum(line[column] for line in lines) * gib * 1024 / 1e5 for column in range(COLUMNS)]


class Memory:
    """The most memory that this process and all below it have at once, without pages of files.

    Attributes:
        peak: In bytes.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.peak = 0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:  # noqa: PYI034 - Self needs Python 3.11
        """Look again and again."""
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look no more."""
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            parents: dict[int, int] = {}
            own: dict[int, int] = {}
            for path in Path("/proc").glob("[0-9]*/status"):
                with suppress(OSError, KeyError, IndexError):
                    told = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
                    parents[int(told["Pid"])] = int(told["PPid"])
                    own[int(told["Pid"])] = int(told["RssAnon"].split()[0]) * 1024
            ours = {os.getpid()}
            while more := {pid for pid in own if parents[pid] in ours} - ours:
                ours |= more
            self.peak = max(self.peak, sum(own.get(pid, 0) for pid in ours))


def measure_large_table(folder: Path, gib: int) -> str:
    """From a file of CSV to the sums of its columns, in words."""
    program = write_program(folder / "program")
    sums = write_large_table(folder / "table.csv", gib)
    (folder / "run").mkdir()
    moments = [time.perf_counter()]
    with Memory() as reading:
        run = prepare_run(
            *(program, folder / "table.csv"), settings={"max_iterations": 3}, workers=WORKERS, local=True,
            store=folder / "store", run=folder / "run", toolkit=find_toolkit(),
        )  # fmt: skip
    moments.append(time.perf_counter())
    with Memory() as running:
        result = lead(run, gpus=[None] * WORKERS, tell=lambda _: moments.append(time.perf_counter()))
    found = result.result["state"]["sums"]
    worst = max(abs(one - other) / other for one, other in zip(found, sums, strict=True))
    read, distributed = moments[1] - moments[0], moments[3] - moments[2]
    return (
        f"{gib} GiB of CSV, {result.rows:,} rows of {COLUMNS}: read in {read:.0f} s "
        f"({gib * 1024 / read:.0f} MiB/s) with {reading.peak / 1024**2:.0f} MiB of memory; to {WORKERS} workers with "
        f"the first of 3 iterations in {distributed:.1f} s; {running.peak / 1024**3:.2f} GiB of memory at most in all "
        f"processes together; sums differ by {worst:.1e}"
    )


def spread(seconds: list[float]) -> str:
    """Median, and the tenth and the ninetieth of a hundred, in ms."""
    ordered = sorted(seconds)
    low, high = ordered[len(ordered) // 10], ordered[len(ordered) * 9 // 10]
    return f"{statistics.median(ordered) * 1e3:.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--csv-gib", type=int, metavar="N", help="only this: a table of N GiB and the memory it takes")
    asked = parser.parse_args()
    settle_dask()
    if asked.csv_gib:
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="gpuprov-programs-") as place:
            print(f"{describe()}\n\n{measure_large_table(Path(place), asked.csv_gib)}")
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="gpuprov-programs-") as place:
        folder = Path(place)
        empty, slow = Ours(folder / "empty", EMPTY), Ours(folder / "slow", SLOW)
        ours: list[float] = []
        dask_seconds: list[float] = []
        distributed, scattered = [], []
        empty.run(3, 16)  # builds it
        for _ in range(2):
            moments, _ = empty.run(asked.rounds // 2, 16)
            ours += [after - before for before, after in itertools.pairwise(moments)]
            with plain_dask(folder) as client:
                dask_seconds += dask_rounds(client, asked.rounds // 2)
            moments, _ = empty.run(1, asked.mib * 1024**2 // 8 // COLUMNS)
            distributed.append(moments[1] - moments[0])
            with plain_dask(folder) as client:
                scattered.append(dask_scatter(client, asked.mib * 1024**2))
        slow.run(3, 16)
        whole = slow.run(100, 16)[1]
        killed = slow.run(100, 16, kill=True)[1]
    print(f"{describe()}\n")
    print("| | gpuprov | plain Dask |\n|---|---|---|")
    print(f"| an empty round over {WORKERS} workers | {spread(ours)} | {spread(dask_seconds)} |")
    rates = [f"{asked.mib / statistics.mean(seconds):.0f} MiB/s" for seconds in (distributed, scattered)]
    print(f"| {asked.mib} MiB to {WORKERS} workers | {rates[0]} | {rates[1]} |")
    print(f"\n100 rounds of 20 ms: {whole.seconds:.2f} s; {killed.seconds:.2f} s with a worker killed in between")
    print(f"({killed.moved} slice moved)")


if __name__ == "__main__":
    main()
