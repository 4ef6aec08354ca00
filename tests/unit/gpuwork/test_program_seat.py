"""A worker's place in a run: it holds its own rows, once, and what it needs is built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuprov.shapes.program_answers import Opened
from gpuprov.shapes.program_rounds import RowSlice
from gpuwork.programs import seat as seat_module
from gpuwork.programs.build import build_library
from gpuwork.programs.config import read_config
from gpuwork.programs.prepare import prepare_run
from gpuwork.programs.process import ProgramError, ProgramProcess
from gpuwork.programs.seat import Seat
from gpuwork.programs.table import write_table
from gpuwork.programs.toolkit import STANDIN, find_toolkit
from tests.fakes.programs import CUDA, write_program
from tests.fakes.programs import write_table as write_table_of_sums

pytestmark = pytest.mark.slow

MIB = 1024**2
ROWS = 2 * MIB  # of 4 columns: 64 MiB of doubles


def own_bytes(process: ProgramProcess) -> int:
    """The memory of a process without the pages of files, which the kernel can drop."""
    status = Path(f"/proc/{process._process.pid}/status").read_text()
    found = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def test_a_worker_holds_its_own_rows_once(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"1,2,3,4\n" * ROWS)
    assert write_table(tmp_path / "t.csv", tmp_path / "t.bin")[1] == []
    assert (tmp_path / "t.bin").stat().st_size >= 64 * MIB
    program = write_program(tmp_path / "p")
    config, _, _ = read_config(program)
    assert config is not None
    library = tmp_path / "p.so"
    assert build_library(program, config, STANDIN, part=library, toolkit=find_toolkit()) == []
    with ProgramProcess(program, config, log=tmp_path / "log") as process:
        _, (params,) = process.ask("make_params", settings={})
        process.ask("load", library=str(library), block_size=32)
        process.ask("open", params, dataset=str(tmp_path / "t.bin"), is_table=True)
        _, (state,) = process.ask("init_state")
        before = own_bytes(process)
        assert before < 32 * MIB, "whoever only opens it holds none of it"
        process.ask("take_slice", number=0, start=0, stop=ROWS // 4)
        process.ask("iterate", state, number=0)
        held = own_bytes(process) - before
        assert 15 * MIB < held < 20 * MIB, "a quarter of it, once"
        process.ask("release", before=1)
        process.ask("take_slice", number=1, start=ROWS // 4, stop=ROWS // 2)
        assert own_bytes(process) - before < 20 * MIB, "other rows in place of these"


def test_a_worker_that_comes_later_builds_for_itself(tmp_path: Path) -> None:
    write_table_of_sums(tmp_path / "t.csv", 8, 2, seed=1)
    (tmp_path / "run").mkdir()
    run = prepare_run(
        *(write_program(tmp_path / "p"), tmp_path / "t.csv"), settings={}, workers=1, local=True,
        store=tmp_path / "store", run=tmp_path / "run", toolkit=find_toolkit(),
    )  # fmt: skip
    assert run.registered.targets == []
    seat = Seat(run, 7)
    try:
        seat.take(RowSlice(number=0, start=2, stop=6))
    finally:
        seat.drop()
    assert run.registered.targets == [STANDIN]


HANGS = """\
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int hang(const char *at) {
    while (getenv("HANG") && !strcmp(getenv("HANG"), at)) usleep(10000);
    return 0;
}
"""


def test_what_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = HANGS + CUDA.replace("    result->rows +=", '    hang("iterate");\n    result->rows +=')
    cuda = cuda.replace("{ return cudaMallocManaged(&d->", '{ return hang("take") + cudaMallocManaged(&d->')
    cuda = cuda.replace("{ return cudaFree(d->", '{ return hang("close") + cudaFree(d->')
    write_table_of_sums(tmp_path / "t.csv", 8, 2, seed=1)
    (tmp_path / "run").mkdir()
    run = prepare_run(
        *(write_program(tmp_path / "p", cuda=cuda), tmp_path / "t.csv"), settings={}, workers=1, local=True,
        store=tmp_path / "store", run=tmp_path / "run", toolkit=find_toolkit(),
    )  # fmt: skip
    with ProgramProcess(run.registered.code, run.registered.read_config(), log=tmp_path / "log") as process:
        process.ask("open", run.params, dataset=str(run.dataset), is_table=True)
        state = bytes(process.ask("init_state")[1][0])
    rows = RowSlice(number=0, start=0, stop=8)
    for where, limit, said in (
        ("take", "INITIALISE_S", "take the rows 0 to 7"),
        ("iterate", "ITERATE_S", "run an iteration over the rows 0 to 7"),
        ("close", "CLEAN_UP_S", "close"),
    ):
        monkeypatch.setenv("HANG", where)
        monkeypatch.setattr(seat_module, limit, 2.0)
        seat = Seat(run, 0)
        with pytest.raises(ProgramError, match=f"program columns did not {said}.* within 2 s"):
            seat.iterate(rows, 0, state)
            seat.close()
        assert seat._process is None, "nothing of it is left"


def test_an_odd_answer_of_a_program_is_an_error_of_three_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = ProgramProcess.__new__(ProgramProcess)
    process._name, process._log = "kmeans", tmp_path / "log"
    for said in ({"rows": -1}, {}, {"rows": 3, "more": 1}):
        monkeypatch.setattr(process, "ask", lambda *_, said=said, **__: (said, []))
        with pytest.raises(ProgramError, match="gave an odd answer") as caught:
            process.learn(Opened, "open")
        assert caught.value.fix == f"tail {tmp_path / 'log'}"
