"""The tables of docs/reliability.md, from what the reliability tests counted and measured; no number is typed.

Usage: make reliability     as root: runs those tests (docs/reliability.md says how long) and writes the tables
   or: python -m benchmarks.reliability LEDGER... [--into docs/reliability.md]     the tables of runs that are over

A ledger is what `pytest --ledger FILE` writes. Each table stands between two comments, `<!-- NAME -->` and
`<!-- /NAME -->`; one whose tests are in no ledger stays as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Row = dict[str, Any]
HOWS = ("SIGKILL", "SIGTERM", "SIGINT", "engine")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def kills_by_verb(rows: list[Row]) -> str:
    """Survived of tried, by engine and verb; every row of a ledger is a kill that was survived or not."""
    told = sum(row.get("told", 0) > 0 for row in rows)  # needed what doctor says, besides the next run
    lines = [
        (
            engine,
            f"`{verb}`",
            _survived(kills),
            _span([row["seconds"] for row in kills if row["survived"] and row["seconds"]]),  # 0: it was not timed
        )
        for (engine, verb), kills in _group(rows, "engine", "verb").items()
    ]
    signals = [
        f"{how if how != 'engine' else 'SIGKILL to the engine'} {_survived(tries)}"
        for how in HOWS
        if (tries := [row for row in rows if row["how"] == how])
    ]
    whole = f"{_survived(rows)}: {', '.join(signals)}; {told} with doctor's command"
    return table(("On", "Verb", "Kills survived", "Next run"), [*lines, ("all", "", whole, "")])


def fake(rows: list[Row]) -> str:
    """Kills at every step and every pair of steps on the fake engine."""
    by_verb = _group(rows, "verb")
    steps, pairs = (
        sum(max((run[key] for run in runs), default=0) for runs in by_verb.values()) for key in ("steps", "pairs")
    )
    verbs = "; ".join(verb for (verb,) in by_verb)
    return table(("Verbs", "Kills at one step, all survived", "at two steps, all survived"), [(verbs, steps, pairs)])


def races(rows: list[Row]) -> str:
    """How many times each race was run, and how it ended."""
    lines: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (race, where), runs in _group(rows, "race", "where").items():
        ends = "; or ".join(sorted({_end(run) for run in runs}))
        lines[race, ends].append(f"{where} {len(runs)}")
    return table(
        ("Race", "Runs", "Each time"), sorted((race, ", ".join(where), ends) for (race, ends), where in lines.items())
    )


def repairs(rows: list[Row]) -> str:
    """What was changed, how long the repair took."""
    times = [
        (statistics.median(run["seconds"] for run in runs), what) for (what,), runs in _group(rows, "what").items()
    ]
    return table(
        ("What happened", "Time to repair"), _together((what, f"{seconds:.0f} s") for seconds, what in sorted(times))
    )


def foreign(rows: list[Row]) -> str:
    """Things of others that were compared, and how many of them changed."""
    lines = [
        (", ".join(row["engine"] for row in same), *found)
        for found, same in _group(rows, "life", "objects", "changed").items()
    ]
    return table(("Engine", "Life of a cluster", "Foreign things compared", "Changed"), lines)


def hostile(rows: list[Row]) -> str:
    """Where root in a node misbehaved, and how many kinds gpuprov and the other nodes survived, by engine."""
    engines = sorted({row["engine"] for row in rows}, reverse=True)
    placed = [{**row, "place": row["misbehaviour"].partition(":")[0]} for row in rows]
    lines = _together(
        (place, *(_survived([row for row in tries if row["engine"] == engine]) for engine in engines))
        for (place,), tries in sorted(_group(placed, "place").items())
    )
    whole = (_survived([row for row in rows if row["engine"] == engine]) for engine in engines)
    kinds = len({row["misbehaviour"] for row in rows})
    return table(("Misbehaviour of", *engines), [*lines, (f"all {kinds} kinds", *whole)])


def hostile_jobs(rows: list[Row]) -> str:
    """What a job left in place of a file of its submission or of the folder of jobs, and whether others noticed."""
    lines = []
    for (state,), tries in _group(rows, "state").items():
        own = [row for row in tries if not row["place"].startswith("/")]
        common = [row for row in tries if row["place"].startswith("/")]
        slowest = max(row["seconds"] for row in tries)
        lines.append((state, _survived(own), _survived(common), f"{slowest:.2f} s"))
    own = [row for row in rows if not row["place"].startswith("/")]
    common = [row for row in rows if row["place"].startswith("/")]
    slowest = f"{max(row['seconds'] for row in rows):.2f} s"
    headers = ("In place of a file", "of a submission", "of the folder of jobs", "Slowest verb")
    return table(headers, [*_together(lines), (f"all {len(lines)} states", _survived(own), _survived(common), slowest)])


def jobs(rows: list[Row]) -> str:
    """Jobs that were lost beside verbs that remove, stop or restart nodes."""
    lines = [
        (engine, f"`{verb}`", *(sum(run[key] for run in runs) for key in ("rounds", "jobs", "lost")))
        for (engine, verb), runs in _group(rows, "engine", "verb").items()
    ]
    whole = ("all", "", *(sum(row[key] for row in rows) for key in ("rounds", "jobs", "lost")))
    return table(("On", "Verb beside a full queue", "Rounds", "Jobs", "Lost"), [*sorted(lines), whole])


def suggestions(rows: list[Row]) -> str:
    """How many of the commands that errors suggest helped where they were suggested, and which did not."""
    lines = []
    for (where,), tries in _group([{"where": "fake", **row} for row in rows], "where").items():
        failed = [f"`{row['command']}` ({row['error']})" for row in tries if not row["helped"]]
        helped = f"{len(tries) - len(failed)} of {len(tries)}"
        lines.append((where, len({row["error"] for row in tries}), helped, ", ".join(failed) or "none"))
    return table(("On", "Errors", "Suggested commands that helped", "Others"), lines)


TABLES: dict[str, tuple[str, Callable[[list[Row]], str]]] = {
    "kills": ("kill", kills_by_verb),
    "fake": ("fake", fake),
    "races": ("race", races),
    "repairs": ("repair", repairs),
    "foreign": ("foreign", foreign),
    "hostile": ("hostile", hostile),
    "hostile-jobs": ("hostile-job", hostile_jobs),
    "jobs": ("job", jobs),
    "suggestions": ("suggestion", suggestions),
}


def _group(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[key] for key in keys)].append(row)
    return found


def _together(lines: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """One line for all that ended alike."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, *found in lines:
        alike[tuple(found)].append(name)
    return [("; ".join(names), *found) for found, names in alike.items()]


def _survived(kills: list[Row]) -> str:
    """How many, and of how many if not all."""
    survived = sum(kill["survived"] for kill in kills)
    if not kills:
        return ""
    return str(survived) if survived == len(kills) else f"{survived} of {len(kills)}"


def _span(seconds: list[float]) -> str:
    if not seconds:
        return ""
    low, high = min(seconds), max(seconds)
    if len(seconds) == 1:
        return f"{low:.1f} s"
    return f"{statistics.median(seconds):.1f} s ({low:.1f} to {high:.1f})"


def _end(run: Row) -> str:
    parts = ((run["won"], "did it"), (run["idle"], "unchanged"), (run["refused"], "refused"))
    return ", ".join(f"{number} {words}" for number, words in parts if number)


def describe_machine() -> str:
    """A line about this machine, and the day."""
    lxd, incus, docker = (_version(program, "--version") for program in ("lxd", "incus", "dockerd"))
    engines = f"LXD {lxd}, Incus {incus}, {docker.partition(',')[0].replace(' version', '')}"
    load = f"load {os.getloadavg()[2]:.0f} at the end"
    return (
        f"Linux {platform.release()}, {os.cpu_count()} CPUs, {load}; {engines}. {time.strftime('%F', time.gmtime())}."
    )


def _version(*argv: str) -> str:
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"no {argv[0]}"


def replace(text: str, ledger: list[Row], machine: str) -> str:
    """The document with every table anew that the ledger has rows for."""
    for name, (kind, render) in TABLES.items():
        rows = [row for row in ledger if row["kind"] == kind]
        if rows:
            begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
            head, _, rest = text.partition(begin)
            tail = rest.partition(end)[2]
            if not rest or not tail:
                raise SystemExit(f"the document has no place for {name}: {begin} ... {end}")
            text = f"{head}{begin}\n{machine}\n\n{render(rows)}\n{end}{tail}"
    return text


def main() -> int:
    """Write the tables, or print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledgers", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, help="The document whose tables are replaced.")
    arguments = parser.parse_args()
    ledger = [json.loads(line) for path in arguments.ledgers for line in path.read_text().splitlines()]
    if arguments.into:
        arguments.into.write_text(replace(arguments.into.read_text(), ledger, describe_machine()))
        return 0
    for name, (kind, render) in TABLES.items():
        rows = [row for row in ledger if row["kind"] == kind]
        if rows:
            sys.stdout.write(f"{name}\n\n{render(rows)}\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
