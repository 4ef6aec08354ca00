"""The REST API of LXD and Incus through pylxd: calls, waiting for operations, and where all errors are translated."""

from __future__ import annotations

import time
import urllib.parse
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import few_lines
from gpuprov.drivers.changes import one_change
from gpuprov.drivers.lost_answers import lost_answers, require_document
from gpuprov.drivers.lxd.family import KIN, Kin
from gpuprov.drivers.lxd.operations import wait_for_operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

Document = dict[str, Any]
_PIECE_BYTES = 65536
_FOUND_NOT, _OVERTAKEN = 404, 412
_WRITES = 5  # of a document that others write too
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
    (("is shutting down",), "{title} is stopping or restarting; run the same command again once it runs"),
    (
        ("unavailable on this server",),
        "{title} could not start that network: its log says why; restart {title}, then run the same command again",
    ),
    (("parent device",), "the bridge is gone; recreate it: gpuprov cluster up --name CLUSTER"),
    (
        ("failed setting subvolume writable",),
        "if the folder in the evidence is empty: sudo rmdir FOLDER; then run the same command again",
    ),
    (
        ("idmapping abilities",),
        "this kernel or {title} cannot map file owners there: mount read-only (:ro), --privileged, or --share FOLDER",
    ),
    (
        ("already exists", "already used", "already in use"),
        "choose another name or address, or find the holder: gpuprov list --all",
    ),
    (
        ("file name too long",),
        "folders in {name} are nested too deep for the engine; remove them: gpuprov exec {name} -- rm -rf FOLDER",
    ),
    (("etag doesn't match",), "another program changes {name} all the time; run the same command again"),
    (("not found",), "list what exists: gpuprov list --all"),
)


class NotFound(EngineError):
    """The engine has no object of that name."""


class Overtaken(EngineError):
    """Somebody else has written a document since it was read."""


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
    def member(self) -> str:
        """Name of this host in the cluster that the engine is a member of; empty where it is in none."""
        environment = self.client.host_info["environment"]
        return str(environment["server_name"]) if environment.get("server_clustered") else ""

    @property
    def storage_pools(self) -> Path:
        """The folder with its pools; its socket may lie elsewhere."""
        beside = self.socket.parent / "storage-pools"
        return beside if beside.is_dir() else Path(self.kin.folder) / "storage-pools"

    def get(self, *path: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        """GET a document; one of an instance that is dying, once it is dead."""
        return self._read_tagged(path, params)[0]

    def _read_tagged(self, path: tuple[str, ...], params: Mapping[str, object]) -> tuple[Any, str]:
        """The same with its ETag."""
        end_s = time.monotonic() + _DYING_S
        while True:
            try:
                with self.translated("read", path):
                    answer = self._node(path).get(params=params or None)
                    said = answer.json()
                request = f"read {'/'.join(path)}"
                document = require_document(said, "metadata", engine=self.engine, request=request)["metadata"]
                return document, answer.headers.get("ETag", "")
            except EngineError as error:
                if _DYING not in error.evidence or time.monotonic() > end_s:
                    raise
            time.sleep(_DYING_STEP_S)

    def read(self, *path: str, take: Callable[[bytes], bool | None], timeout_s: float, **params: object) -> None:
        """GET a file, and hand on its pieces until `take` says False or the time is over."""
        end_s = time.monotonic() + timeout_s
        options = {"is_api": False, "stream": True, "timeout": timeout_s}
        with (
            self.translated("read", path, limit_s=timeout_s),
            closing(self._node(path).get(params=params or None, **options)) as answer,
        ):
            for piece in answer.iter_content(_PIECE_BYTES):
                if take(piece) is False or time.monotonic() > end_s:
                    break

    def send(
        self, method: str, *path: str, body: Mapping[str, Any], timeout_s: float | None = None, target: str = ""
    ) -> Document:
        """POST, PUT or PATCH a document and wait for the operation it starts; returns the operation's metadata.

        `timeout_s` is how long that may take; None for as long as it does not go without progress for the usual limit.
        `target` is the member of the engine's cluster that is to do it; empty where the engine is in none, or for all.
        """
        deed = describe_request(method, path, body)
        with nullcontext() if method == "post" else self._alone(path):
            return self.finished(self.begin(method, *path, body=body, target=target), path, timeout_s, deed=deed)

    def begin(
        self, method: str, *path: str, body: Mapping[str, Any], target: str = "", unless_not: str = ""
    ) -> Document:
        """POST, PUT or PATCH a document; returns the answer, whose operation goes on.

        `unless_not` is the ETag without which it is Overtaken; empty for any.
        """
        more: Document = {"params": {"target": target}} if target else {}
        more |= {"headers": {"If-Match": unless_not}} if unless_not else {}
        with self.translated(method, path, body):
            answer: Document = getattr(self._node(path), method)(json=body, **more).json()
        return answer

    def rewrite(self, *path: str, alter: Callable[[Document], Document]) -> None:
        """GET a document, PUT what it becomes, and wait; again from the start where somebody else wrote it meanwhile.

        Raises:
            Overtaken: That happened too often.
        """
        with self._alone(path):
            for left in reversed(range(_WRITES)):
                document, tag = self._read_tagged(path, {})
                body = alter(document)
                try:
                    answer = self.begin("put", *path, body=body, unless_not=tag)
                except Overtaken:
                    if left:
                        continue
                    raise
                self.finished(answer, path, deed=describe_request("put", path, body))
                break

    def _alone(self, path: tuple[str, ...]) -> AbstractContextManager[None]:
        """One change of an instance at a time.

        LXD 5.0 reads an instance, starts its devices and then writes all that it read: a label that came in between
        is lost, and whether the instance runs. Incus has a lock of its own.
        """
        if path[:1] != ("instances",):
            return nullcontext()
        return one_change(self.engine, path[1])

    def delete(self, *path: str, timeout_s: float | None = None) -> None:
        """DELETE and wait, as `send` does."""
        with self.translated("delete", path):
            answer = self._node(path).delete().json()
        self.finished(answer, path, timeout_s, deed=describe_request("delete", path))

    def upload(self, *path: str, data: Any, content_type: str) -> Document:  # noqa: ANN401 - whatever requests sends
        """POST something long and wait for the operation it starts; returns the operation's metadata."""
        with self.translated("upload", path):
            answer = self._node(path).post(data=data, headers={"Content-Type": content_type}).json()
        return self.finished(answer, path, deed=describe_request("upload", path))

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

    def finished(
        self, answer: Document, path: tuple[str, ...], timeout_s: float | None = None, *, deed: str = ""
    ) -> Document:
        """Wait for what `begin` began, which is `deed` in words; returns the operation's metadata."""
        if not answer.get("operation"):
            return answer.get("metadata") or {}
        identity = answer["operation"].rsplit("/", 1)[-1].split("?")[0]
        deed = deed or describe_request("change", path)
        look = partial(self._operation, identity, path, deed)
        result = wait_for_operation(self, look, deed, timeout_s=timeout_s)
        ran = "return" in (result.get("metadata") or {})  # a command that ended with 126 or 127 counts as failed
        if result["status_code"] >= 400 and not ran:  # noqa: PLR2004 - LXD: 4xx has failed
            said = result.get("err") or (result.get("metadata") or {}).get("error")
            raise self._error(said or "no reason given", deed, path)
        return result

    def _operation(self, identity: str, path: tuple[str, ...], deed: str, pause_s: float) -> Document:
        """An operation as soon as it has ended, else as it is after the pause."""
        from pylxd.exceptions import LXDAPIException

        place, limit_s = ("operations", identity), pause_s + _GRACE_S
        try:
            with self.translated("wait for", path, deed=deed, limit_s=limit_s):
                wait = {"params": {"timeout": int(pause_s)}, "timeout": limit_s}
                said = self._node((*place, "wait")).get(**wait).json()
        except EngineError as error:
            # Incus answers so where the operation goes on after the pause, and where it has failed: it tells itself
            if not isinstance(error.__cause__, LXDAPIException):
                raise
            try:
                with self.translated("wait for", path, deed=deed):
                    said = self._node(place).get().json()
            except NotFound:
                raise error from error.__cause__
        operation = require_document(said, "metadata", engine=self.engine, request=deed)["metadata"]
        return require_document(operation, "status_code", engine=self.engine, request=deed)

    def _error(self, reason: str, deed: str, path: tuple[str, ...], *, status: int = 0) -> EngineError:
        absent = status == _FOUND_NOT or "not found" in reason.lower() or reason == "Invalid instance name"
        kind = NotFound if absent else Overtaken if status == _OVERTAKEN else EngineError
        return kind(
            f"{self.engine} could not {deed}",
            evidence=few_lines(reason),
            fix=_fix_for(reason, self.kin, self.pool, path[1] if len(path) > 1 else ""),
        )

    @contextmanager
    def translated(
        self,
        verb: str,
        path: tuple[str, ...],
        body: Mapping[str, Any] | None = None,
        *,
        deed: str = "",
        limit_s: float | None = None,
    ) -> Iterator[None]:
        """Turn what pylxd raises in the block, which does `deed`, into errors of ours."""
        from pylxd.exceptions import LXDAPIException

        try:
            with lost_answers(self.engine, f"{verb} {'/'.join(path)}", limit_s=limit_s):
                yield
        except LXDAPIException as exc:
            reason, status = words_of(exc.response), exc.response.status_code
            raise self._error(reason, deed or describe_request(verb, path, body), path, status=status) from exc


def words_of(answer: Any) -> str:  # noqa: ANN401 - a response of requests
    """The engine's own words in an answer that says that something failed; its status where it has none."""
    with suppress(ValueError):
        said = answer.json()
        documents = [said.get("metadata"), said] if isinstance(said, dict) else []
        for document in documents:
            if isinstance(document, dict) and (words := document.get("err") or document.get("error")):
                return str(words)
    return answer.content.decode("utf-8", "replace").strip() or f"status {answer.status_code}, and no reason given"


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
