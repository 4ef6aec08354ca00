"""Leases as engines tell them over their sockets."""

from __future__ import annotations

import json
import socket
from contextlib import closing, suppress
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.docker_labels import LABELS_OF, LABELS_SERIAL, parse_changed_labels
from gpuprov.drivers import base
from gpuprov.runtime import engines
from gpuprov.runtime.engines import Place, ask_engines, read_docker, read_lxd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LABELS = {"gpuprov.cluster": "lab", "gpuprov.gpus": "GPU-1,GPU-2", "gpuprov.sharing": "exclusive"}


def test_the_labels_are_those_of_nodes() -> None:
    assert (*(base.LABEL_GPUS, base.LABEL_SHARING, base.LABEL_CLUSTER, base.LABEL_SELF),) == (
        engines.GPUS,
        engines.SHARING,
        engines.CLUSTER,
        engines.SELF,
    )
    assert (engines.ROLE, engines.PROCESS, engines.JOB) == (base.LABEL_ROLE, base.LABEL_PROCESS, base.ROLE_JOB)
    assert base.LABEL_DETACHED == engines.DETACHED


def test_a_node_holds_what_its_labels_say_and_a_copy_nothing() -> None:
    found = read_docker(
        [
            {"Names": ["/c000"], "Labels": LABELS, "State": "running"},
            {"Names": ["/copy"], "Labels": {**LABELS, "gpuprov.self": "c000"}, "State": "running"},
            {"Names": ["/web"], "Labels": None, "State": "running"},
            {"Labels": {}},
        ]
    )
    assert [(one.node, one.gpus, one.sharing) for one in found] == [("c000", ("GPU-1", "GPU-2"), "exclusive")]
    config = {f"user.{key}": value for key, value in LABELS.items()}
    (lxd,) = read_lxd([{"name": "c001", "config": config, "status": "Stopped"}, {"name": "x"}], engine="lxd")
    assert (lxd.node, lxd.cluster, lxd.status, lxd.engine) == ("c001", "lab", "stopped", "lxd")


def test_labels_that_were_changed_later_count() -> None:
    """Docker cannot change them, so a network holds them: a node whose GPU was replaced holds the new one."""
    network = {
        "ConfigOnly": True,
        "Labels": {LABELS_OF: "abc", LABELS_SERIAL: "1", "gpuprov.gpus": "GPU-9", "other": "x"},
    }
    documents = [{"Id": "abc", "Names": ["/train"], "Labels": LABELS}]
    (lease,) = read_docker(documents, parse_changed_labels([network, {"Id": "n", "Labels": None}]))
    assert lease.gpus == ("GPU-9",)


@pytest.mark.parametrize(("own", "is_node"), [("train", True), ("c000", False), (None, False)])
def test_only_what_gpuprov_made_under_this_name_is_a_node(own: str | None, is_node: bool, served: Path) -> None:
    labels = {"gpuprov.cluster": "lab", **({"gpuprov.self": own} if own else {})}
    documents = [{"Id": "abc", "Names": ["/train"], "Labels": labels}]
    (served.parent / "answer").write_bytes(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(documents).encode())
    told = ask_engines([Place(engine="docker", sockets=(str(served),))])
    assert told.nodes == (frozenset({"abc"}) if is_node else frozenset())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A socket; what lies in `answer` beside it is what it answers, if it is there."""
    with closing(socket.socket(socket.AF_UNIX)) as door:
        door.bind(str(tmp_path / "s"))
        door.listen()

        def serve() -> None:
            while True:
                try:
                    line, _ = door.accept()
                except OSError:
                    return
                line.recv(4096)
                if (tmp_path / "answer").exists():
                    with suppress(OSError):  # who does not believe the first answer does not read the second
                        line.sendall((tmp_path / "answer").read_bytes())
                    line.close()
                else:
                    lines.append(line)

        lines: list[socket.socket] = []
        Thread(target=serve, daemon=True).start()
        yield tmp_path / "s"
        door.shutdown(socket.SHUT_RDWR)
        for line in lines:
            line.close()


def test_an_engine_answers_with_names_and_leases(served: Path) -> None:
    documents = [{"Id": "abc", "Names": ["/train"], "Labels": LABELS}]
    (served.parent / "answer").write_bytes(b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n" + json.dumps(documents).encode())
    told = ask_engines([Place(engine="docker", sockets=("/nowhere", str(served)))])
    assert (dict(told.names), [one.node for one in told.leases], dict(told.silent)) == ({"abc": "train"}, ["train"], {})


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.0 500 no\r\n\r\n[]", b"HTTP/1.0 200 OK\r\n\r\n{", b"HTTP/1.0 200 OK\r\n\r\n[1]", None],
    ids=["empty", "500", "cut", "strange", "silent"],
)
def test_what_an_engine_does_not_tell_is_unknown(served: Path, answer: bytes | None) -> None:
    if answer is not None:
        (served.parent / "answer").write_bytes(answer)
    told = ask_engines([Place(engine="docker", sockets=(str(served),))], answer_s=0.2)
    assert list(told.silent) == ["docker"]


def test_an_engine_that_is_not_here_holds_nothing_and_one_that_is_stopped_may(tmp_path: Path) -> None:
    absent = str(tmp_path / "none")
    places = [
        Place(engine="lxd", sockets=(absent,), installed=False),
        Place(engine="incus", sockets=(absent,), installed=True),
    ]
    assert list(ask_engines(places).silent) == ["incus"]
