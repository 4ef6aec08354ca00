from __future__ import annotations

import io
import os
import pty
import re
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.progress import Live, Plain, RunningPhase, can_show, render_running
from gpuprov.cli.runlog import KEPT_LOGS, Both, RunLog, log_folder
from gpuprov.cli.tables import PIPE, Screen, render_fields, render_table, screen_of, short_uuid
from gpuprov.core.rollback import AGAIN, Rollback
from gpuprov.gpu.simulate import simulated_uuid

if TYPE_CHECKING:
    from tests.conftest import Recording


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        """The lines a terminal would show in the end."""
        lines: list[str] = [""]
        for part in re.split(r"(\x1b\[\d+A\r\x1b\[J|\n)", re.sub(r"\x1b\[\d*m", "", self.getvalue())):
            up = re.fullmatch(r"\x1b\[(\d+)A\r\x1b\[J", part)
            if up:
                del lines[len(lines) - 1 - int(up[1]) :]
                lines.append("")
            elif part == "\n":
                lines.append("")
            else:
                lines[-1] += part
        return [re.sub(r"\d+\.\d s", "T", line) for line in lines if line]


def test_plain_writes_a_line_for_begin_end_note_and_warning() -> None:
    stream = io.StringIO()
    plain = Plain(stream, verbose=True)
    with plain.phase("nodes"):
        plain.node("c000", "starting")
        plain.note("as before")
    plain.warn("look")
    with pytest.raises(ValueError, match="x"), plain.phase("slurm"):
        raise ValueError("x")
    assert re.sub(r"\d+\.\d s", "T", stream.getvalue()).splitlines() == [
        "nodes ...",
        "  c000: starting",
        "  as before",
        "nodes done (T)",
        "warning: look",
        "slurm ...",
        "slurm failed (T)",
    ]


def test_plain_says_nothing_of_a_phase_that_goes_well_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.cli.progress.QUICK_S", 100.0)
    stream = io.StringIO()
    plain = Plain(stream)
    with plain.phase("copy"):
        plain.node("c000", "copying")
    assert stream.getvalue() == ""
    with pytest.raises(ValueError, match="x"), plain.phase("slurm"):
        raise ValueError("x")
    assert stream.getvalue().startswith("slurm failed (")
    with pytest.raises(KeyboardInterrupt), plain.phase("wait for 8"):
        raise KeyboardInterrupt
    assert "wait for 8 interrupted (" in stream.getvalue()


def test_plain_says_that_a_phase_goes_on_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.cli.progress.QUICK_S", 0.01)
    stream = Said()
    with Plain(stream).phase("copy"):
        stream.wait_for("copy ...\n")
    assert stream.getvalue().splitlines()[-1].startswith("copy done (")


class Said(io.StringIO):
    """A pipe whose reader waits for words."""

    def __init__(self) -> None:
        super().__init__()
        self._news = threading.Condition()

    def write(self, text: str) -> int:
        with self._news:
            written = super().write(text)
            self._news.notify_all()
        return written

    def wait_for(self, text: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: text in self.getvalue(), 30)


def test_plain_says_how_far_a_phase_is_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.cli.progress.PROGRESS_S", 0.01)
    monkeypatch.setattr("gpuprov.cli.progress.QUICK_S", 0.01)
    stream = Said()
    plain = Plain(stream)
    with plain.phase("base"):
        stream.wait_for("base ... 0 s\n")
    with plain.phase("roles"):
        plain.node("gpuprov-build", "slurm: Install packages")
        stream.wait_for("roles ... 0 s gpuprov-build: slurm: Install packages\n")
    with plain.phase("publish"):
        stream.wait_for("publish ... 0 s\n")
    quiet = io.StringIO()
    with Plain(quiet, quiet=True).phase("base"), Plain(stream).phase("longer than that"):
        stream.wait_for("longer than that ... 0 s\n")
    assert quiet.getvalue() == ""


def test_plain_does_not_interrupt_what_is_being_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word of a phase is for who would hear nothing else."""
    plain = Plain(stream := Said(), verbose=True)
    waits: list[float | None] = []

    def wait(_ended: threading.Event, timeout: float | None = None) -> bool:
        waits.append(timeout)
        plain.node("c000", f"step {len(waits)}")
        return len(waits) > 3

    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", wait)
        plain._tick("nodes", 0.0, threading.Event())
    assert stream.getvalue().splitlines() == [f"  c000: step {number}" for number in range(1, 5)]


@pytest.mark.parametrize("reporter", [Plain, Live])
def test_an_undo_goes_on_though_nobody_listens(reporter: type[Plain | Live]) -> None:
    """As after `cluster up 2>&1 | tee log` and Ctrl-C, which ends tee too, or on the terminal of a lost connection."""
    ours, theirs = os.pipe()
    os.close(ours)
    undone: list[str] = []
    with os.fdopen(theirs, "w", encoding="utf-8", buffering=1) as stream:
        spoken = reporter(stream)
        with pytest.raises(KeyboardInterrupt), Rollback(spoken, left_over=AGAIN) as rollback, spoken.phase("nodes"):
            for name in ("c000", "c001"):
                rollback.add(name, partial(undone.append, name))
                spoken.node(name, "created")
            raise KeyboardInterrupt
        with suppress(OSError):
            stream.close()
    assert undone == ["c001", "c000"]


def test_live_leaves_finished_phases_and_redraws_the_running_one(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    live = Live(terminal)
    with live.phase("plan"):
        pass
    assert terminal.screen() == [], "which went well in a moment"
    monkeypatch.setattr("gpuprov.cli.progress.QUICK_S", 0.0)
    with live.phase("networks"):
        live.node("gpbr0", "made")
    with pytest.raises(ValueError, match="x"):  # noqa: SIM117 - the screen is looked at between the two
        with live.phase("nodes"):
            for name in ("c000", "c001", "c002"):
                live.node(name, "starting")
            live.node("c002", "running")
            live.warn("look")
            assert terminal.screen() == [
                "networks done T",
                "warning: look",
                "nodes ... T",
                "  c[000-001]  starting",
                "  c002  running",
            ]
            raise ValueError("x")
    live.note("undid node c000")
    assert terminal.screen() == ["networks done T", "warning: look", "nodes failed T", "  undid node c000"]


def test_live_takes_nodes_from_many_threads() -> None:
    terminal = Terminal()
    live = Live(terminal)
    with live.phase("nodes"):
        threads = [threading.Thread(target=live.node, args=(f"c{n:03d}", "running")) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert terminal.screen() == ["nodes ... T", "  c[000-015]  running"]


def test_a_line_longer_than_the_terminal_is_cut_so_that_redrawing_stays_right() -> None:
    phase = RunningPhase(name="x" * 200, started_s=0, nodes={"c000": "y" * 200})
    lines = render_running([phase], now_s=1, columns=80)
    assert [len(line) < 80 for line in lines] == [True, True]


@pytest.mark.parametrize(
    ("environment", "shown"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)],
)
def test_colours_only_where_they_can_be_shown(environment: dict[str, str], shown: bool) -> None:
    assert can_show(Terminal(), environment) is shown
    assert not can_show(io.StringIO(), environment)


def test_a_real_terminal_is_one() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        assert can_show(stream, {"TERM": "xterm"})
    os.close(ours)


def test_columns_are_as_wide_as_they_need_and_empty_cells_are_seen() -> None:
    table = render_table(("NODE", "STATE"), [("c000", "idle"), ("longer-name", None), ("c001", "")])
    assert table.splitlines() == ["NODE         STATE", "c000         idle", "longer-name  -", "c001         -"]


def test_a_table_without_rows_is_its_header() -> None:
    assert render_table(("NODE", "STATE"), []) == "NODE  STATE"


def test_a_cell_of_several_lines_stays_one_row() -> None:
    assert len(render_table(("A", "B"), [("x", "one\ntwo")]).splitlines()) == 2


def test_colour_changes_no_widths() -> None:
    rows = [("ok", "kernel"), ("fail", "subnet")]
    coloured = render_table(("STATUS", "CHECK"), rows, screen=Screen(colour=True))
    assert "\x1b[31m" in coloured
    assert re.sub(r"\x1b\[\d*m", "", coloured) == render_table(("STATUS", "CHECK"), rows)


UUID = f"GPU-{'0' * 36}"
WIDE = (
    ("GPU", "MODEL", "PCI", "UUID", "LOST", "HELD BY"),
    (
        (
            "0",
            "SIMULATED NVIDIA H100 80GB HBM3",
            "0000:51:00.0",
            f"GPU-{'0' * 36}",
            None,
            "c000 (lxd lab), c001 (lxd b)",
        ),
        (
            "1",
            "NVIDIA H100 80GB HBM3",
            "0000:52:00.0",
            f"GPU-{'1' * 36}",
            "",
            "nvidia0,nvidia1,nvidia2,nvidia3,nvidia4",
        ),
    ),
)
SPARE = ("UUID", "PCI", "MODEL")


def test_a_pipe_gets_all_columns_and_a_line_for_each_row() -> None:
    assert screen_of(io.StringIO(), {"TERM": "xterm"}) == PIPE
    table = render_table(*WIDE, spare=SPARE).splitlines()
    assert len(table) == 3
    assert table == render_table(*WIDE).splitlines()
    assert max(map(len, table)) == 139


def test_a_terminal_gets_the_columns_that_fit_and_is_told_of_the_others() -> None:
    assert render_table(*WIDE, spare=SPARE, screen=Screen(columns=139)) == render_table(*WIDE)
    assert render_table(*WIDE, spare=SPARE, screen=Screen(columns=138)).splitlines()[0].split() == [
        *("GPU", "MODEL", "PCI", "UUID", "HELD", "BY"),  # what no row has goes first, and is no loss
    ]
    assert render_table(*WIDE, spare=SPARE, screen=Screen(columns=80)).splitlines() == [
        "GPU  MODEL                            HELD BY",
        "0    SIMULATED NVIDIA H100 80GB HBM3  c000 (lxd lab), c001 (lxd b)",
        "1    NVIDIA H100 80GB HBM3            nvidia0,nvidia1,nvidia2,nvidia3,nvidia4",
        "not shown: UUID, PCI; for all columns, append: | cat",
    ]


def test_a_narrow_column_is_shown_where_a_wide_one_that_is_missed_more_has_no_room() -> None:
    rows = (("0", "x" * 30, "off", "y" * 20),)
    table = render_table(("GPU", "MODEL", "MIG", "MEMORY"), rows, spare=("MIG", "MEMORY"), screen=Screen(columns=50))
    assert table.splitlines()[0].split() == ["GPU", "MODEL", "MIG"]
    assert table.splitlines()[-1] == "not shown: MEMORY; for all columns, append: | cat"


def test_short_names_of_gpus_differ() -> None:
    uuids = [simulated_uuid(index) for index in (0, 1, 16)]
    assert [short_uuid(uuid) for uuid in uuids] == ["GPU-51515151..0", "GPU-51515151..1", "GPU-51515151..10"]
    assert short_uuid("GPU-0123abcd-0000-4000-8000-000000000000") == "GPU-0123abcd"


@pytest.mark.parametrize("columns", [40, 60, 79, 80, 100, 120])
@pytest.mark.parametrize("spare", [(), SPARE])
def test_no_line_of_a_table_is_wider_than_the_terminal(columns: int, spare: tuple[str, ...]) -> None:
    table = render_table(*WIDE, spare=spare, screen=Screen(columns=columns))
    note = "not shown"  # which the terminal wraps
    assert max(len(line) for line in table.splitlines() if not line.startswith(note)) <= columns
    if not spare:  # nothing is lost, only wrapped
        plain = re.sub(r"\s", "", table)
        assert sorted(plain) == sorted(re.sub(r"\s", "", render_table(*(WIDE if columns > 138 else _without_lost()))))


def _without_lost() -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    headers, rows = WIDE
    return (*headers[:4], headers[5]), [(*row[:4], row[5]) for row in rows]


def test_text_wraps_within_its_column_with_its_colour() -> None:
    rows = [("fail", "a list of files, and more of them", "x")]
    table = render_table(("STATUS", "EVIDENCE", "NODE"), rows, screen=Screen(colour=True, columns=32))
    assert re.sub(r"\x1b\[\d*m", "", table).splitlines() == [
        "STATUS  EVIDENCE            NODE",
        "fail    a list of files,    x",
        "        and more of them",
    ]
    assert table.count("\x1b[31m") == 1


def test_long_values_of_fields_go_on_below_themselves() -> None:
    fields = [("label", "a, " * 20 + "b"), ("port", "80")]
    assert len(render_fields(fields).splitlines()) == 2
    lines = render_fields(fields, screen=Screen(columns=40)).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 40
    assert lines[0].startswith("  label     a,")
    assert lines[1].startswith(" " * 12 + "a,")


def test_logs_of_root_and_of_others() -> None:
    assert log_folder({}, uid=0) == Path("/var/log/gpuprov")
    assert log_folder({"HOME": "/home/ada"}, uid=1000) == Path("/home/ada/.local/state/gpuprov/log")
    assert log_folder({"HOME": "/home/ada", "XDG_STATE_HOME": "/s"}, uid=1000) == Path("/s/gpuprov/log")


def test_a_log_is_private_and_holds_all(tmp_path: Path, recording: Recording) -> None:
    log = RunLog.begin(tmp_path / "log", ["cluster", "up", "-n", "4"])
    both = Both(recording, log)
    with both.phase("nodes"):
        both.node("c000", "starting")
        both.warn("look")
    both.note("end")
    assert log.path is not None
    assert log.path.stat().st_mode & 0o777 == 0o600
    text = log.path.read_text()
    for piece in ("cluster up -n 4", "begin nodes", "c000: starting", "warning: look", "done nodes after"):
        assert piece in text
    assert recording.lines == ["begin nodes", "node c000 starting", "warn look", "end nodes", "note end"]


def test_a_log_holds_no_secret_of_the_command_line(tmp_path: Path) -> None:
    log = RunLog.begin(tmp_path, ["create-node", "c004", "-e", "DB_PASSWORD=two words", "-e", "A=b c"])
    assert log.path is not None
    assert log.path.read_text().endswith("create-node c004 -e 'DB_PASSWORD=(hidden)' -e 'A=b c'\n")


def test_old_logs_go(tmp_path: Path) -> None:
    for number in range(KEPT_LOGS + 5):
        (tmp_path / f"20200101T000000.{number:06d}-1.log").touch()
    log = RunLog.begin(tmp_path, ["list"])
    kept = sorted(tmp_path.glob("*.log"))
    assert len(kept) == KEPT_LOGS
    assert kept[-1] == log.path
