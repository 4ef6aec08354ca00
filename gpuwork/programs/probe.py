"""Compares a program's header with its ctypes structures, by a small C++ program that the compiler reads with it."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import read
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.programs import Measured
from gpuwork.errors import shown
from gpuwork.programs.compiler import compile_sources
from gpuwork.programs.contract import C_FUNCTIONS, STRUCTURES
from gpuwork.programs.toolkit import NATIVE, STANDIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.program_answers import Structure
    from gpuwork.programs.config import ProgramConfig
    from gpuwork.programs.toolkit import Toolkit

_LIMIT_S: Final = 60
_SOURCE: Final = "probe.cpp"
_BEGIN: Final = """\
#include "{header}"
#include <cstddef>
#include <cstdio>
#include <type_traits>
template <class T> void words(char *to) {{
    using std::is_same;
    if (is_same<T, bool>::value) sprintf(to, "bool");
    else if (is_same<T, char>::value) sprintf(to, "character");
    else if (std::is_floating_point<T>::value) sprintf(to, "floating-point number");
    else if (std::is_integral<T>::value) sprintf(to, std::is_signed<T>::value ? "signed integer" : "unsigned integer");
    else if (std::is_enum<T>::value) sprintf(to, "signed integer");
    else sprintf(to, "other");
}}
template <class T> struct Kind {{ static void tell(char *to) {{ words<T>(to); }} }};
template <class T> struct Kind<T *> {{
    static void tell(char *to) {{
        char of[200];
        Kind<T>::tell(of);
        sprintf(to, "pointer to %s of %zu", of, sizeof(T));
    }}
}};
template <class T, size_t n> struct Kind<T[n]> {{
    static void tell(char *to) {{
        char of[200];
        Kind<T>::tell(of);
        sprintf(to, "array of %s of %zu", of, sizeof(T));
    }}
}};
template <class T> void tell(const char *name, size_t offset) {{
    char kind[300];
    Kind<T>::tell(kind);
    const char *form = "{{\\"name\\": \\"%s\\", \\"offset\\": %zu, \\"size\\": %zu, \\"kind\\": \\"%s\\"}}\\n";
    printf(form, name, offset, sizeof(T), kind);
}}
"""
_DECLARED: Final = 'static_assert(std::is_same<decltype(&{name}), {type}>::value, "signature");'
_SIZE: Final = 'void tell_{number}() {{ tell<{name}>("{name}", 0); }}'
_FIELD: Final = (
    'void tell_{number}() {{ tell<decltype((({name} *)0)->{field})>("{name}.{field}", offsetof({name}, {field})); }}'
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def find_header_faults(
    code: Path, config: ProgramConfig, structures: Mapping[str, Structure], toolkit: Toolkit
) -> list[Fault]:
    """Every difference between the header and ctypes, and every function that the header does not declare.

    Args:
        code: The folder of the program.
        config: What its `config.yaml` says.
        structures: As `examine` told them.
        toolkit: The compilers.

    Raises:
        HostLacks: There is no compiler.
        TimedOut: It took too long.
    """
    lines, about = _write(structures)
    with tempfile.TemporaryDirectory() as place:
        probe = Path(place, _SOURCE)
        begin = _BEGIN.format(header=config.header).splitlines()
        argv = [
            *(toolkit.require_gxx(), "-std=c++17", "-w", "-fmax-errors=0", f"-I{NATIVE / STANDIN}", f"-I{code}"),
            *("-include", "cuda_runtime.h", "-include", "stdio.h"),
        ]
        probe.write_text("\n".join([*begin, *lines, ""]))
        said = compile_sources([*argv, "-fsyntax-only", str(probe)], folder=code)
        elsewhere = [fault for fault in said if not fault.file.endswith(_SOURCE)]
        if elsewhere:
            return elsewhere
        wrong: dict[int, str] = {}
        for fault in said:
            wrong.setdefault((fault.line or 0) - len(begin) - 1, fault.message)
        faults = [_complaint(config, about[number], wrong[number]) for number in sorted(wrong) if number in about]
        left = {number: line for number, line in enumerate(lines) if number not in wrong}
        try:
            measured = _measure(begin, left, about, argv=argv, code=code, place=Path(place))
        except ValueError as error:
            message = f"the sizes of its structures cannot be found: {error}"
            return [*faults, Fault(file=config.header, message=message, allowed="declarations alone")]
    return [*faults, *_differences(config, structures, measured)]


def _write(structures: Mapping[str, Structure]) -> tuple[list[str], dict[int, str]]:
    """The lines of the probe, and what each is about."""
    lines: list[str] = []
    about: dict[int, str] = {}

    def add(line: str, name: str) -> None:
        about[len(lines)] = name
        lines.append(line)

    for name, signature in C_FUNCTIONS.items():
        add(_DECLARED.format(name=name, type=signature), name)
    for name in STRUCTURES:
        add(_SIZE.format(number=len(lines), name=name), name)
        for field in structures[name].fields if name in structures else ():
            if _IDENTIFIER.fullmatch(field.name):
                line = _FIELD.format(number=len(lines), name=name, field=field.name)
                add(line, f"{name}.{field.name}")
    return lines, about


def _complaint(config: ProgramConfig, name: str, said: str) -> Fault:
    if name in C_FUNCTIONS:
        declared = C_FUNCTIONS[name].replace("(*)", name)
        message = "has another signature" if "static assertion" in said else "is not declared"
        return Fault(file=config.header, where=name, message=message, allowed=f"{declared};")
    message = f"is in {config.python}, and the header does not have it"
    return Fault(file=config.header, where=name, message=message if "." in name else "is missing")


def _measure(
    begin: list[str], lines: Mapping[int, str], about: Mapping[int, str], *, argv: list[str], code: Path, place: Path
) -> dict[str, Measured]:
    """What the compiler makes of the structures and fields that are there, by name.

    Raises:
        ValueError: The header runs something of its own, which prints, crashes or does not end.
    """
    calls = " ".join(f"tell_{number}();" for number in lines if about[number] not in C_FUNCTIONS)
    probe, program = place / _SOURCE, place / "probe"
    # Without the functions: what only declares them can be linked.
    kept = [line for number, line in lines.items() if about[number] not in C_FUNCTIONS]
    probe.write_text("\n".join([*begin, *kept, f"int main() {{ {calls} return 0; }}", ""]))
    if compile_sources([*argv, str(probe), "-o", str(program)], folder=code):
        return {}
    try:
        done = subprocess.run(  # noqa: S603
            [str(program)], capture_output=True, timeout=_LIMIT_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"it did not end within {_LIMIT_S} s") from None
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit status {done.returncode}"
        raise ValueError(f"it ended with {how}")
    try:
        told = [read(Measured, line) for line in done.stdout.splitlines()]
    except ValueError as error:
        raise ValueError(f"it prints {shown(done.stdout[:60], 60)}") from error
    return {one.name: one for one in told}


def _differences(
    config: ProgramConfig, structures: Mapping[str, Structure], measured: Mapping[str, Measured]
) -> list[Fault]:
    faults = []

    def differ(where: str, what: str, there: object, here: object) -> None:
        message = f"{what} {there} in the header and {here} in {config.python}"
        faults.append(Fault(file=config.header, where=where, message=message))

    for name, structure in structures.items():
        for field in structure.fields:
            found = measured.get(f"{name}.{field.name}")
            if found is None:
                continue
            where = f"{name}.{field.name}"
            if found.kind != field.kind and "other" not in (found.kind, field.kind):
                differ(where, "is a", found.kind, f"a {field.kind}")
            if found.size != field.size:
                differ(where, "has", f"{found.size} bytes", field.size)
            if found.offset != field.offset:
                differ(where, "begins at byte", found.offset, field.offset)
        found = measured.get(name)
        if found is not None and found.size != structure.size:
            differ(name, "has", f"{found.size} bytes", structure.size)
    return faults
