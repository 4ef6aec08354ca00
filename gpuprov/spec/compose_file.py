"""Reads a file of docker compose: services with their variables filled in, and everything that is wrong."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.shapes.compose import ComposeFile
from gpuprov.shapes.faults import Fault, find_faults
from gpuprov.shapes.written import Manner, read_yaml, word_as_yaml_1_1

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gpuprov.shapes.compose import ComposeService
    from gpuprov.shapes.values import Value

_MANNER: Final = Manner(word=word_as_yaml_1_1)
_MOST_BYTES: Final = 1_000_000
_MOST_FILE_BYTES: Final = 500_000  # a ConfigMap holds 1 MiB
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE: Final = re.compile(rf"\$(?:(\$)|({_NAME})|\{{({_NAME})(?:(:?-)([^}}]*))?\}}|)")


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service.

    Attributes:
        ports: Numbers in the container, with `tcp` or `udp`.
        files: Content by where it is in the container.
        everywhere: Whether one runs on each node.
    """

    name: str
    image: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    ports: tuple[tuple[int, str], ...]
    files: tuple[tuple[str, str], ...]
    runtime: str | None
    everywhere: bool

    def is_copy_of(self, other: Service) -> bool:
        """Whether only the names differ."""
        return replace(self, name=other.name) == other


@dataclass(frozen=True, kw_only=True)
class Stack:
    """What a file describes; `name` is the project's."""

    name: str
    services: tuple[Service, ...]


def read_stack(path: Path, environment: Mapping[str, str], *, name: str | None = None) -> Stack:
    """The services of a file.

    Args:
        path: The file.
        environment: Values for the variables in it.
        name: Of the project; else the file's own `name`, or the name of its folder.

    Raises:
        UsageError: The file cannot be read, or something in it cannot be translated; all of it is listed.
    """
    reader = _Reader(path, environment)
    stack = reader.read(name)
    if reader.faults or stack is None:
        raise UsageError(
            f"{excerpt(str(path))} cannot be translated",
            evidence="\n".join(map(str, reader.faults)),
            fix=f"$EDITOR {shlex.quote(str(path))}",
        )
    return stack


class _Reader:
    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.faults: list[Fault] = []
        self._path = path
        self._environment = environment
        self._filled: dict[int, tuple[Value, Value]] = {}
        self._merged: dict[int, tuple[Value, Value]] = {}

    def read(self, name: str | None) -> Stack | None:
        text = self._content(self._path, _MOST_BYTES)
        value, faults = read_yaml(text, file=self._path.name, manner=_MANNER) if text is not None else (None, [])
        self.faults += faults
        if value is None:
            self._fault(None, "", "describes no services") if not self.faults else None
            return None
        top = self._fill_in(self._merge(value))
        if isinstance(top.content, dict):
            kept = {key: one for key, one in top.content.items() if not key.startswith("x-")}
            top = replace(top, content=kept)
        found, faults = find_faults(ComposeFile, top, file=self._path.name)
        self.faults += faults
        written: Mapping[str, ComposeService] = found.get("services", {})
        folder = re.sub("[^a-z0-9]+", "-", self._path.resolve().parent.name.lower()).strip("-0123456789")
        project = name or found.get("name") or folder[:63].rstrip("-") or "stack"
        self._check_label(project, None, "name")
        services = tuple(self._service(key, one, top.line_of(f"services.{key}")) for key, one in written.items())
        return Stack(name=project, services=services)

    def _service(self, name: str, told: ComposeService, line: int | None) -> Service:
        where = f"services.{name}"
        self._check_label(name, line, where)
        if told.hostname not in (None, name):
            self._fault(line, f"{where}.hostname", f"is {told.hostname!r}", f"the service's own name, {name}")
        return Service(
            name=name,
            image=told.image,
            entrypoint=self._words(told.entrypoint, line, f"{where}.entrypoint"),
            command=self._words(told.command, line, f"{where}.command"),
            variables=tuple(self._variables(told)),
            ports=tuple(self._ports(told, line, where)),
            files=tuple(self._files(told.volumes, line, where)),
            runtime=told.runtime,
            everywhere=told.deploy.mode == "global",
        )

    def _words(self, told: tuple[str, ...] | str | None, line: int | None, where: str) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(told)) if isinstance(told, str) else told or ()
        except ValueError as error:
            self._fault(line, where, str(error))
            return ()

    def _ports(self, told: ComposeService, line: int | None, where: str) -> Iterator[tuple[int, str]]:
        for text in dict.fromkeys(str(port).rpartition(":")[2] for port in (*told.ports, *told.expose)):
            number, _, protocol = text.partition("/")
            if 0 < int(number) < 2**16:
                yield int(number), protocol or "tcp"
            else:
                self._fault(line, f"{where}.ports", f"{number} is no port", "1 to 65535")

    def _variables(self, told: ComposeService) -> Iterator[tuple[str, str]]:
        if isinstance(told.environment, tuple):
            for text in told.environment:
                name, equals, value = text.partition("=")
                if equals or name in self._environment:
                    yield name, value if equals else self._environment[name]
            return
        for name, plain in told.environment.items():
            if plain is None:
                if name in self._environment:
                    yield name, self._environment[name]
            else:
                yield name, str(plain).lower() if isinstance(plain, bool) else str(plain)

    def _files(self, volumes: Sequence[str], line: int | None, where: str) -> Iterator[tuple[str, str]]:
        for text in volumes:
            source, _, rest = text.partition(":")
            target = rest.removesuffix(":ro")
            if not source.startswith(".") or not self._is_beside(source):
                allowed = "a file beside this one, ./FILE:TARGET:ro"
                self._fault(line, f"{where}.volumes", f"{text!r} is no file that manifests can hold", allowed)
                continue
            content = self._content(self._path.parent / source, _MOST_FILE_BYTES, line, f"{where}.volumes")
            if content is not None:
                yield target, content

    def _is_beside(self, source: str) -> bool:
        folder = self._path.resolve().parent
        return (folder / source).resolve().is_relative_to(folder)

    def _content(self, path: Path, most: int, line: int | None = None, where: str = "") -> str | None:
        try:
            if not path.is_file():
                path.stat()  # says why
                self._fault(line, where, f"{path} is no file")
                return None
            with path.open("rb") as file:
                data = file.read(most + 1)
            if len(data) > most:
                self._fault(line, where, f"{path.name} is too large", f"at most {most:,} bytes")
                return None
            return data.decode()
        except OSError as error:
            self._fault(line, where, f"{path}: {error.strerror}")
        except UnicodeDecodeError:
            self._fault(line, where, f"{path} is not text")
        return None

    def _fill_in(self, value: Value) -> Value:
        """A value with its variables; what aliases share is done once."""
        if id(value) not in self._filled:
            self._filled[id(value)] = value, self._fill_anew(value)
        return self._filled[id(value)][1]

    def _fill_anew(self, value: Value) -> Value:
        if isinstance(value.content, dict):
            return replace(value, content={key: self._fill_in(one) for key, one in value.content.items()})
        if isinstance(value.content, list):
            return replace(value, content=[self._fill_in(one) for one in value.content])
        if isinstance(value.content, str) and "$" in value.content:
            filled = _VARIABLE.sub(lambda match: self._variable(match, value.line), value.content)
            return replace(value, content=filled)
        return value

    def _merge(self, value: Value) -> Value:
        """Keys of `<<` as keys of the mapping itself, which replaces what it has of its own."""
        if id(value) not in self._merged:
            self._merged[id(value)] = value, self._merge_anew(value)
        return self._merged[id(value)][1]

    def _merge_anew(self, value: Value) -> Value:
        if isinstance(value.content, list):
            return replace(value, content=[self._merge(one) for one in value.content])
        if not isinstance(value.content, dict):
            return value
        content = {key: self._merge(one) for key, one in value.content.items()}
        merged = content.pop("<<", None)
        parts = merged.content if merged and isinstance(merged.content, list) else [merged] if merged else []
        for part in parts:
            content = {**(part.content if isinstance(part.content, dict) else {}), **content}
        return replace(value, content=content)

    def _variable(self, match: re.Match[str], line: int | None) -> str:
        dollar, plain, braced, how, default = match.groups()
        name = plain or braced
        if dollar:
            return "$"
        if not name:
            self._fault(line, "", "a variable cannot be read", "$NAME, ${NAME}, ${NAME:-DEFAULT}, or $$ for a dollar")
            return ""
        found = self._environment.get(name)
        if found is None or (how == ":-" and not found):
            if how is None:
                self._fault(line, "", f"the variable {name} is not set", "a value, or a default: ${NAME:-DEFAULT}")
            return default or ""
        return found

    def _check_label(self, name: str, line: int | None, where: str) -> None:
        if not _LABEL.fullmatch(name):
            allowed = "1 to 63 of a-z, 0-9 and -, as Kubernetes names things"
            self._fault(line, where, f"{name[:80]!r} is no name there", allowed)

    def _fault(self, line: int | None, where: str, message: str, allowed: str = "") -> None:
        self.faults.append(Fault(file=self._path.name, line=line, where=where, message=message, allowed=allowed))
