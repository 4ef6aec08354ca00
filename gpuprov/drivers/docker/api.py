"""The Docker Engine API through the docker SDK's client: requests, and the one place that translates its errors."""

from __future__ import annotations

import json
import re
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import few_lines
from gpuprov.core.silence_limit import silence_limit_s
from gpuprov.drivers.docker.folders import Folders
from gpuprov.drivers.lost_answers import lost_answers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from docker import APIClient

_FOUND_NOT = 404
_CONFLICT = 409
_ERROR = 400
_IDENTITY = re.compile(r"\b[0-9a-f]{64}\b")


class NotFound(EngineError):
    """The engine has no object of that name."""


class Conflict(EngineError):
    """The name is taken, or the object is in use."""


class DockerApi:
    """Requests against `/vX.Y`.

    Args:
        client: A connected `docker.APIClient`, whose session, address and API version are used. The SDK's own methods
            do not know every field that is needed (config-only networks), and ask more often than needed.
        address: The daemon's, `unix:///var/run/docker.sock`, for Docker's own client.
    """

    def __init__(self, client: APIClient, *, address: str) -> None:
        self.client = client
        self.address = address
        self.folders = Folders()
        self._names: dict[str, str] = {}

    def get(self, path: str, /, **params: object) -> Any:  # noqa: ANN401 - JSON
        """GET a document."""
        answer = self._request("get", path, params=params)
        with self.translated("get", path):
            return answer.json()

    @contextmanager
    def reading(self, path: str, /, *, timeout_s: float | None, **params: object) -> Iterator[Any]:
        """GET something long as it comes: a file to read from, closed with the block wherever it was read to."""
        answer = self._request("get", path, params=params, stream=True, timeout=timeout_s)
        answer.raw.decode_content = True  # archives come compressed
        with closing(answer), self.translated("get", path, limit_s=timeout_s):
            yield answer.raw

    def post(self, path: str, body: Mapping[str, Any] | None = None, /, **params: object) -> Any:  # noqa: ANN401 - JSON
        """POST a document; returns the answer, which may be empty."""
        answer = self._request("post", path, params=params, json=body)
        with self.translated("post", path):
            return answer.json() if answer.content else {}

    def exists(self, path: str, /, **params: object) -> bool:
        """HEAD."""
        try:
            self._request("head", path, params=params)
        except NotFound:
            return False
        return True

    def put(self, path: str, content: bytes, /, **params: object) -> None:
        """PUT a tar."""
        self._request("put", path, params=params, data=content, headers={"Content-Type": "application/x-tar"})

    def delete(self, path: str, /, **params: object) -> None:
        """DELETE."""
        self._request("delete", path, params=params)

    def open_stream(self, path: str, body: Mapping[str, Any] | None = None, /, **params: object) -> Any:  # noqa: ANN401 - a response whose body is still to come
        """POST, and return as soon as the engine has taken the request; the body comes when it comes."""
        return self._request("post", path, params=params, json=body, stream=True, timeout=None)

    def _request(self, method: str, path: str, *, params: Mapping[str, object], **options: Any) -> Any:  # noqa: ANN401
        url = f"{self.client.base_url}/v{self.client.api_version}{path}"
        encoded = {key: _parameter(value) for key, value in params.items()}
        timed = {"timeout": silence_limit_s(), **options}
        with self.translated(method, path, limit_s=options.get("timeout")):
            answer = getattr(self.client, method)(url, params=encoded, **timed)
        if answer.status_code >= _ERROR:
            raise error_from(answer.status_code, _reason(answer), f"{method} {self._with_names(path)}")
        return answer

    @contextmanager
    def translated(self, verb: str, path: str, *, limit_s: float | None = None) -> Iterator[None]:
        """Turn what the SDK raises in the block into errors of ours."""
        from docker.errors import APIError, DockerException

        request = f"{verb} {self._with_names(path)}"
        try:
            with lost_answers("docker", request, limit_s=limit_s):
                try:
                    yield
                except APIError as exc:
                    raise error_from(exc.status_code or _ERROR, exc.explanation or str(exc), request) from exc
        except DockerException as exc:
            raise EngineError(
                f"the request to docker failed: {request}",
                evidence=str(exc) or type(exc).__name__,
                fix="check whether the daemon is running: gpuprov doctor; then run the same command again",
            ) from exc

    def remember(self, identity: str, name: str) -> None:
        """Have errors call a container by its node's name."""
        self._names[identity] = name

    def _with_names(self, path: str) -> str:
        return _IDENTITY.sub(lambda found: self._names.get(found[0], found[0][:12]), path)


def error_from(status: int, reason: str, request: str) -> EngineError:
    """An error of ours for the engine's own words."""
    kind = {_FOUND_NOT: NotFound, _CONFLICT: Conflict}.get(status, EngineError)
    return kind(f"docker refused: {request}", evidence=few_lines(reason) or f"status {status}", fix=_fix_for(reason))


_FIXES = (
    ("unable to find user", "name a user that the image has, or a number: --user 1000"),
    ("unable to find group", "name a group that the image has, or a number: --user 1000:1000"),
    ("no space left", "free some space: docker system df; gpuprov image list"),
    ("pool overlaps", "choose other subnets: network.subnet and network.private_subnet in the spec; docker network ls"),
    (
        "has active endpoints",
        "Docker counts a container that is gone; to restart it, which stops containers: systemctl restart docker",
    ),
    ("port is already allocated", "find the holder: gpuprov list --all; ss -ltnp"),
    ("address already in use", "find the holder: gpuprov list --all; ss -ltnp"),
    ("already in use", "choose another name or address, or find the holder: gpuprov list --all"),
    ("already exists", "choose another name or address, or find the holder: gpuprov list --all"),
    ("could not find bridge", "Docker's own bridge was removed; recreate it: systemctl restart docker"),
    (
        "network id ",  # of one whose parent did not exist when dockerd started, though it lists it
        "Docker did not load that network when it started; load it, which stops containers: systemctl restart docker",
    ),
    (
        "source path does not exist",
        "the host lacks a mounted file or folder; after a driver upgrade: gpuprov cluster up --name CLUSTER",
    ),
    ("no such image", "list the images: gpuprov image list --engine docker; docker images"),
    ("max depth exceeded", "the node was rebuilt too many times: gpuprov rm NODE, then create it again"),
    ("no such", "list what exists: gpuprov list --all"),
    ("not found", "list what exists: gpuprov list --all"),
)


def _fix_for(reason: str) -> str:
    """The next command for an engine's own words."""
    words = reason.lower()
    return next((fix for start, fix in _FIXES if start in words), "check the host with: gpuprov doctor")


def _parameter(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)


def _reason(answer: Any) -> str:  # noqa: ANN401 - a response of requests
    try:
        return str(answer.json()["message"]).strip()
    except (ValueError, KeyError, TypeError):
        return str(answer.text).strip()
