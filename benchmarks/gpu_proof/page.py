"""The proof as one JSON document, and as a page of Markdown with every number in it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from benchmarks.gpu_proof.run import Result

SCHEMA = "gpuprov.gpu-proof/v1"
Document = dict[str, Any]


def proof_document(results: Sequence[Result], *, simulated: bool, seconds: float) -> Document:
    """Everything that was found, and what was not run."""
    return {
        "schema": SCHEMA,
        "gpuprov": __version__,
        "simulated": simulated,
        "passed": any(r.status == "passed" for r in results) and all(r.status != "failed" for r in results),
        "seconds": round(seconds, 1),
        "parts": [
            {
                "name": result.part.name,
                "title": result.part.title,
                "status": result.status,
                "why": result.why,
                "seconds": round(result.seconds, 1),
                "document": result.document,
            }
            for result in results
        ],
        "not_run": {result.part.name: result.why for result in results if result.status == "not run"},
        "unknown": {result.part.name: result.why for result in results if result.status == "unknown"},
    }


def render_page(proof: Mapping[str, Any]) -> str:
    """The page; the JSON document beside it has the same and more."""
    lines = ["# GPU proof", ""]
    if proof["simulated"]:
        lines += ["**SIMULATED**: there was no GPU. This says nothing about any GPU.", ""]
    verdict = "passed" if proof["passed"] else "FAILED"
    ran = [part for part in proof["parts"] if part["status"] != "not run"]
    count = f"{len(ran)} of {len(proof['parts'])} parts were run"
    if proof["unknown"]:
        count += f", and {len(proof['unknown'])} of them could not judge everything: {', '.join(proof['unknown'])}"
    lines += [
        f"gpuprov {proof['gpuprov']}: **{verdict}** in {proof['seconds']:g} s; {count}.",
        "",
        *_table(
            ("Part", "Status", "Seconds", "Why"),
            [(part["title"], part["status"], part["seconds"], part["why"]) for part in proof["parts"]],
        ),
    ]
    for part in proof["parts"]:
        if part["document"] is not None and part["status"] != "not run":
            lines += [f"## {part['title']}", "", *_SECTIONS.get(part["name"], _numbers)(part["document"])]
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    cells = [[_cell(cell) for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|")


def _kernels(document: Mapping[str, Any]) -> list[str]:
    """Every kernel's rate and proof."""
    devices = {device["uuid"]: device for device in document["devices"]}
    rows = []
    for result in document["results"]:
        rate, proof = result["rate"] or {}, result["proof"] or {"digest": None, "checks": []}
        expected = (rate.get("known_good") or {}).get("fraction", "no expectation" if rate else None)
        rows.append((
            result["gpu"], result["kernel"], _words(result["parameters"]), rate.get("median"), rate.get("unit"),
            len(rate.get("samples", ())), expected, proof["digest"], "yes" if result["passed"] else "NO",
        ))  # fmt: skip
    head = ("GPU", "Kernel", "Parameters", "Rate", "Unit", "Samples", "Of known good", "Digest", "Passed")
    names = [f"{device['name']}, driver {device['driver_version']}: {uuid}" for uuid, device in devices.items()]
    checks = [
        (result["gpu"], result["kernel"], check["name"], _outcome(check), check["evidence"])
        for result in document["results"]
        for check in (result["proof"] or {"checks": []})["checks"]
    ]
    times = [(result["gpu"], result["kernel"], _words(result["seconds"])) for result in document["results"]]
    return [
        *names, "", *_table(head, rows), *_table(("GPU", "Kernel", "Check", "Result", "Evidence"), checks),
        *_table(("GPU", "Kernel", "Seconds"), times),
    ]  # fmt: skip


def _outcome(check: Mapping[str, Any]) -> str:
    """A check that this GPU was not asked passes, and shows nothing."""
    if check["evidence"].startswith("not asked"):
        return "not asked"
    return "pass" if check["passed"] else "FAIL"


def _checks(document: Mapping[str, Any]) -> list[str]:
    """Every check of a report."""
    rows = [(check["id"], check["status"], check["evidence"], check["fix"]) for check in document["checks"]]
    more = {name: value for name, value in document.items() if name != "checks"}
    return [*_numbers(more), *_table(("Check", "Status", "Evidence", "Fix"), rows)]


def _numbers(document: Mapping[str, Any]) -> list[str]:
    """Whatever a document holds, a value a row; which document it is, the heading tells."""
    told = {name: value for name, value in document.items() if name not in ("schema", "part")}
    return _table(("What", "Value"), _flat(told))


def _flat(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and any(isinstance(inner, (dict, list)) for inner in value):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{number}]")
    elif isinstance(value, list):
        yield name, ", ".join(_cell(inner) for inner in value)
    elif isinstance(value, dict):
        yield name, "none"
    else:
        yield name, value


def _words(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_cell(value)}" for name, value in values.items())


_SECTIONS: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "kernels": _kernels,
    "independent": _kernels,
    "one-replica": _kernels,
    "host": _checks,
    "container": _checks,
    "node": _checks,
}
