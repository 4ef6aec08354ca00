"""The REST API of LXD and Incus through pylxd: calls, waiting for operations, and where all errors are translated."""

from __future__ import annotations

import time
import urllib.parse
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.core.excerpt import few_lines
from gpuprov.drivers.lxd.family import KIN, Kin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Document = dict[str, Any]
_PIECE_BYTES = 65536
_GRACE_S = 30.0  # after its own limit, for a daemon that has much to do
_DYING = "Invalid PID"  # all that Incus 6.0 says of an instance for some moments after its init has died
_DYING_S, _DYING_STEP_S = 5.0, 0.1
_SINGULAR = {"instances": "", "networks": "the network ", "storage-pools": "the pool "}
_FIXES = (  # by an engine's own words; the first that is in them counts
    (("no space left", "disk quota exceeded"), "free some space in the storage pool: {look}; gpuprov image list"),
    (
        ("resolve container rootfs",),
        "{title} died while removing it and its files are gone: gpuprov rm {name}; then run the same command again",
    ),
    (
        ("missing source path",),
        "the host lacks a mounted file or folder; after a driver upgrade: gpuprov cluster up --name CLUSTER",
    ),
    (("parent device",), "the bridge is gone; recreate it: gpuprov cluster up --name CLUSTER"),
    (
        ("failed setting subvolume writable",),
        "if the folder in the evidence is empty: sudo rmdir FOLDER; then run the same command again",
    ),
    (
        ("idmapping abilities",),
        "this kernel or {title} cannot map file owners: mount read-only (SOURCE:TARGET:ro) or use --privileged",
    ),
    (
        ("already exists", "already used", "already in use"),
        "choose another name or address, or find the holder: gpuprov list --all",
    ),
    (
        ("file name too long",),
        "folders in {name} are nested too deep for the engine; remove them: gpuprov exec {name} -- rm -rf FOLDER",
    ),
    (("not found",), "list what exists: gpuprov list --all"),
)


class NotFound(EngineError):
    """The engine has no object of that name."""


class LxdApi:
    """Requests against `/1.0`, each returning the answer's metadata.

    Args:
        client: A connected `pylxd.Client`.
        engine: `lxd` or `incus`; it names the engine and its command line client in errors.
        socket: Where the daemon listens.
    """

    def __init__(self, client: Any, *, engine: str, socket: Path) -> None:  # noqa: ANN401 - pylxd has no types
        self.client = client
        self.engine = engine
        self.socket = socket
        self.kin = KIN[engine]
        self.pool: str | None = None  # where nodes are put, once that was looked up; errors name it

    @property
    def command(self) -> str:
        """Its command line client."""
        return self.kin.command

    @property
    def storage_pools(self) -> Path:
        """The folder with its pools; its socket may lie elsewhere."""
        beside = self.socket.parent / "storage-pools"
        return beside if beside.is_dir() else Path(self.kin.folder) / "storage-pools"

    def get(self, *path: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        """GET a document; one of an instance that is dying, once it is dead."""
        end_s = time.monotonic() + _DYING_S
        while True:
            try:
                with self.translated("read", path):
                    return self._node(path).get(params=params or None).json()["metadata"]
            except EngineError as error:
                if _DYING not in error.evidence or time.monotonic() > end_s:
                    raise
            time.sleep(_DYING_STEP_S)

    def read(self, *path: str, take: Callable[[bytes], bool | None], timeout_s: float, **params: object) -> None:
        """GET a file, and hand on its pieces until `take` says False or the time is over."""
        end_s = time.monotonic() + timeout_s
        options = {"is_api": False, "stream": True, "timeout": timeout_s}
        with self.translated("read", path), closing(self._node(path).get(params=params or None, **options)) as answer:
            for piece in answer.iter_content(_PIECE_BYTES):
                if take(piece) is False or time.monotonic() > end_s:
                    break

    def send(self, method: str, *path: str, body: Mapping[str, Any], timeout_s: float = 120.0) -> Document:
        """POST, PUT or PATCH a document and wait for the operation it starts; returns the operation's metadata."""
        deed = describe_request(method, path, body)
        return self.finished(self.begin(method, *path, body=body), path, timeout_s, deed=deed)

    def begin(self, method: str, *path: str, body: Mapping[str, Any]) -> Document:
        """POST, PUT or PATCH a document; returns the answer, whose operation goes on."""
        with self.translated(method, path, body):
            answer: Document = getattr(self._node(path), method)(json=body).json()
        return answer

    def delete(self, *path: str, timeout_s: float = 120.0) -> None:
        """DELETE and wait."""
        with self.translated("delete", path):
            answer = self._node(path).delete().json()
        self.finished(answer, path, timeout_s, deed=describe_request("delete", path))

    def push(self, path: tuple[str, ...], target: str, content: bytes, headers: Mapping[str, str]) -> None:
        """POST a file to an instance's file API."""
        with self.translated("write a file to", path):
            self._node(path).files.post(params={"path": target}, data=content, headers=dict(headers))

    def delete_file(self, path: tuple[str, ...], target: str) -> None:
        """DELETE a file of an instance."""
        with self.translated("remove a file of", path):
            self._node(path).files.delete(params={"path": target})

    def _node(self, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - pylxd has no types
        node = self.client.api
        for part in path:
            node = node[urllib.parse.quote(part, safe="")]
        return node

    def finished(self, answer: Document, path: tuple[str, ...], timeout_s: float, *, deed: str = "") -> Document:
        """Wait for what `begin` began, which is `deed` in words; returns the operation's metadata."""
        if not answer.get("operation"):
            return answer.get("metadata") or {}
        operation_id = answer["operation"].rsplit("/", 1)[-1].split("?")[0]
        with self.translated("wait for", path, deed=deed):  # Incus answers with the operation's own failure
            wait = {"params": {"timeout": int(timeout_s)}, "timeout": timeout_s + _GRACE_S}
            operation = self._node(("operations", operation_id, "wait")).get(**wait)
            result: Document = operation.json()["metadata"]
        if result["status_code"] < 200:  # noqa: PLR2004 - LXD: 1xx is still going on
            raise TimedOut(
                f"{self.engine} did not finish its operation on {'/'.join(path)} within {timeout_s:.0f} s",
                evidence=f"operation {operation_id}: {result['status']}",
                fix=f"inspect it: {self.command} operation show {operation_id}",
            )
        ran = "return" in (result.get("metadata") or {})  # a command that ended with 126 or 127 counts as failed
        if result["status_code"] >= 400 and not ran:  # noqa: PLR2004 - LXD: 4xx has failed
            raise self._error(result.get("err") or "no reason given", deed or describe_request("change", path), path)
        return result

    def _error(self, reason: str, deed: str, path: tuple[str, ...]) -> EngineError:
        absent = "not found" in reason.lower() or reason == "Invalid instance name"
        kind = NotFound if absent else EngineError
        return kind(
            f"{self.engine} could not {deed}",
            evidence=few_lines(reason),
            fix=_fix_for(reason, self.kin, self.pool, path[1] if len(path) > 1 else ""),
        )

    @contextmanager
    def translated(
        self, verb: str, path: tuple[str, ...], body: Mapping[str, Any] | None = None, *, deed: str = ""
    ) -> Iterator[None]:
        """Turn what pylxd raises in the block, which does `deed`, into errors of ours."""
        import requests
        from pylxd.exceptions import LXDAPIException

        try:
            yield
        except LXDAPIException as exc:
            raise self._error(str(exc), deed or describe_request(verb, path, body), path) from exc
        except requests.RequestException as exc:
            raise EngineError(
                f"the connection to {self.engine} was lost during {verb} {'/'.join(path)}",
                evidence=str(exc),
                fix="check whether the daemon is running: gpuprov doctor; then run the same command again",
            ) from exc


def describe_request(verb: str, path: tuple[str, ...], body: Mapping[str, Any] | None = None) -> str:
    """What was asked for: a command in a node changes nothing that we know of, though it is a POST."""
    place, *below = path or ("the server",)
    asked = body or {}
    match below:
        case [name, "exec"]:
            return f"run a command in {name}"
        case [name, "state"] if "action" in asked:
            return f"{asked['action']} {name}"
        case [name, "snapshots"] if "name" in asked:
            return f"create the snapshot {asked['name']} of {name}"
        case [name] if "restore" in asked:
            return f"restore {name}"
        case [] if "name" in asked:
            return f"create {_SINGULAR.get(place, place)}{asked['name']}"
    return f"{'change' if verb in ('post', 'put', 'patch') else verb} {'/'.join((place, *below))}"


def _fix_for(reason: str, kin: Kin, pool: str | None, name: str) -> str:
    """The next command for an engine's own words."""
    look = f"{kin.command} storage info {pool}" if pool else f"{kin.command} storage list"
    found = (fix for words, fix in _FIXES if any(word in reason.lower() for word in words))
    return next(found, "check the host with: gpuprov doctor").format(look=look, name=name, title=kin.title)
