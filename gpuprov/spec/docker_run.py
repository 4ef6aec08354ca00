"""Reads a command line of `docker run` as Docker's own client does: a pure function."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Options of `docker run` and `docker create`, of 20.10 to 28, by their long names
_FLAGS: Final = frozenset(
    {
        *("detach", "disable-content-trust", "help", "init", "interactive", "no-healthcheck", "oom-kill-disable"),
        *("privileged", "publish-all", "quiet", "read-only", "rm", "sig-proxy", "tty", "use-api-socket"),
    }
)
_VALUES: Final = frozenset(
    {
        *("add-host", "annotation", "attach", "blkio-weight", "blkio-weight-device", "cap-add", "cap-drop"),
        *("cgroup-parent", "cgroupns", "cidfile", "cpu-count", "cpu-percent", "cpu-period", "cpu-quota"),
        *("cpu-rt-period", "cpu-rt-runtime", "cpu-shares", "cpus", "cpuset-cpus", "cpuset-mems", "detach-keys"),
        *("device", "device-cgroup-rule", "device-read-bps", "device-read-iops", "device-write-bps"),
        *("device-write-iops", "dns", "dns-opt", "dns-option", "dns-search", "domainname", "entrypoint", "env"),
        *("env-file", "expose", "gpus", "group-add", "health-cmd", "health-interval", "health-retries"),
        *("health-start-interval", "health-start-period", "health-timeout", "hostname", "io-maxbandwidth"),
        *("io-maxiops", "ip", "ip6", "ipc", "isolation", "kernel-memory", "label", "label-file", "link"),
        *("link-local-ip", "log-driver", "log-opt", "mac-address", "memory", "memory-reservation", "memory-swap"),
        *("memory-swappiness", "mount", "name", "net", "net-alias", "network", "network-alias", "oom-score-adj"),
        *("pid", "pids-limit", "platform", "publish", "pull", "restart", "runtime", "security-opt", "shm-size"),
        *("stop-signal", "stop-timeout", "storage-opt", "sysctl", "tmpfs", "ulimit", "user", "userns", "uts"),
        *("volume", "volume-driver", "volumes-from", "workdir"),
    }
)
_SHORT: Final = {
    "a": "attach", "c": "cpu-shares", "d": "detach", "e": "env", "h": "hostname", "i": "interactive", "l": "label",
    "m": "memory", "p": "publish", "P": "publish-all", "q": "quiet", "t": "tty", "u": "user", "v": "volume",
    "w": "workdir",
}  # fmt: skip
_ALIASES: Final = {"net": "network", "net-alias": "network-alias", "dns-opt": "dns-option"}
_WORDS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_VERBS: Final = (("run",), ("create",), ("container", "run"), ("container", "create"))


@dataclass(frozen=True, kw_only=True)
class DockerRun:
    """What a command line says.

    Attributes:
        options: All values of each option, in order, by its long name; those of flags are `true` or `false`.
        image: The name of the image.
    """

    image: str
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def all(self, name: str) -> tuple[str, ...]:
        """The values of an option that may be repeated."""
        return self.options.get(name, ())

    def last(self, name: str) -> str:
        """The value that counts of one that is not; empty where there is none."""
        return self.all(name)[-1] if self.all(name) else ""

    def is_set(self, name: str) -> bool:
        """Whether a flag is."""
        return self.last(name) == "true"


def parse_docker_run(words: Sequence[str]) -> DockerRun:
    """Read `docker run OPTIONS IMAGE ...`, or that of `docker create`.

    Raises:
        UsageError: It is something else, or has an option that Docker's client does not have.
    """
    rest = list(words)
    verb = next((verb for verb in _VERBS if tuple(rest[1 : 1 + len(verb)]) == verb), None)
    if not rest or rest[0].rpartition("/")[2] != "docker" or verb is None:
        raise UsageError(
            "this is no docker run",
            evidence=f"typed: {excerpt(shlex.join(words)) or 'nothing'}; allowed: docker run, docker create",
            fix="gpuprov gate explain -- docker run --gpus 1 IMAGE",
        )
    del rest[: 1 + len(verb)]
    found: dict[str, list[str]] = {}
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        for name, value in _long(word, rest) if word.startswith("--") else _short(word, rest):
            found.setdefault(_ALIASES.get(name, name), []).append(value)
    if not rest:
        raise UsageError(
            "docker run without an image", evidence=excerpt(shlex.join(words)), fix="add the name of the image"
        )
    return DockerRun(image=rest[0], options={name: tuple(values) for name, values in found.items()})


def _long(word: str, rest: list[str]) -> Iterator[tuple[str, str]]:
    name, equals, value = word[2:].partition("=")
    if name in _FLAGS:
        yield name, _flag(word, value if equals else "true")
    elif name in _VALUES:
        yield name, value if equals else _next(word, rest)
    else:
        raise _unknown(word)


def _short(word: str, rest: list[str]) -> Iterator[tuple[str, str]]:
    """Several letters in one word; the first one with a value takes what is left of it."""
    letters = word[1:]
    while letters:
        name, letters = _SHORT.get(letters[0]), letters[1:]
        if name is None:
            raise _unknown(word)
        if name in _VALUES:
            yield name, letters.removeprefix("=") if letters else _next(word, rest)
            return
        if letters.startswith("="):
            yield name, _flag(word, letters[1:])
            return
        yield name, "true"


def _flag(word: str, text: str) -> str:
    if text not in _WORDS:
        raise UsageError(
            f"{excerpt(word)} is neither true nor false", evidence="allowed: true, false", fix=word.partition("=")[0]
        )
    return "true" if _WORDS[text] else "false"


def _next(word: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"{excerpt(word)} has no value", evidence="it is the last word", fix=f"{word} VALUE ... IMAGE")
    return rest.pop(0)


def _unknown(word: str) -> UsageError:
    return UsageError(
        f"{excerpt(word)} is not known as an option of docker run",
        evidence="what is not known is not guessed",
        fix="leave it out, or see whether it is spelt as in: docker run --help",
    )
