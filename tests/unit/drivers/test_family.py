"""What differs between LXD and Incus, where it is used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from gpuprov.core.execution import Completed
from gpuprov.drivers.base import File, NodeRequest
from gpuprov.drivers.lxd import documents, links, networks, settings
from gpuprov.drivers.lxd.api import LxdApi
from gpuprov.drivers.lxd.family import KIN
from gpuprov.drivers.lxd.files import write_files

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUEST = NodeRequest(name="c000", image="instance:base", labels={})
KEYS = {"lxd": "security.devlxd", "incus": "security.guestapi"}


class Client:
    """Has told how it filters packets."""

    host_info: ClassVar[dict[str, Any]] = {"environment": {"firewall": "nftables"}}


@pytest.mark.parametrize("engine", KEYS)
def test_an_instance_has_the_keys_of_its_engine_and_no_others(engine: str) -> None:
    kin = KIN[engine]
    config = documents.render_instance(REQUEST, kin=kin, pool="p", shift=False)["config"]
    assert {key for key in config if key in KEYS.values()} == {KEYS[engine]}
    shown = settings.request_settings(REQUEST, kin)
    assert shown[KEYS[engine]].value == "false"
    document = {"config": {**config, KEYS[engine]: "true"}, "devices": {}, "status": "Stopped", "name": "c000"}
    assert settings.restore_settings(document, REQUEST, kin)["config"][KEYS[engine]] == "false"


@pytest.mark.parametrize(("engine", "header"), [("lxd", "X-LXD-mode"), ("incus", "X-Incus-mode")])
def test_files_are_sent_with_the_headers_of_the_engine(engine: str, header: str) -> None:
    sent: list[dict[str, str]] = []

    class Api:
        kin = KIN[engine]

        def push(self, _path: object, _target: str, _content: bytes, headers: dict[str, str]) -> None:
            sent.append(headers)

    write_files(cast("Any", Api()), "c000", [File(path="/etc/x", content=b"", mode=0o640)])
    assert sent[0][header] == "0640"
    assert len(sent[0]) == 4


@pytest.mark.parametrize(("has", "asks", "lost"), [("incus", "incus", []), ("lxd", "incus", [settings.NAT])])
def test_the_rules_of_a_bridge_are_looked_for_in_the_table_of_its_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: str, asks: str, lost: list[str]
) -> None:
    rules = json.dumps({"nftables": [{"rule": {"chain": "pstrt.gpbr0", "expr": ["masquerade"]}}]})

    def nft(argv: Sequence[str], **_limits: object) -> Completed:
        found = argv[-1] == has
        return Completed(
            argv=tuple(argv), exit_code=0 if found else 1, stdout=rules if found else "", stderr="", seconds=0.0
        )

    api = LxdApi(Client(), engine=asks, socket=Path())
    monkeypatch.setattr(links, "run", nft)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "gpbr0").mkdir()
    seen = networks._read_rules(api)
    assert links.find_lost("gpbr0", {"ipv4.nat": "true"}, seen, links=tmp_path) == lost


@pytest.mark.parametrize(("engine", "folder"), [("lxd", "/var/lib/lxd"), ("incus", "/var/lib/incus")])
def test_storage_lies_beside_the_socket_or_in_the_usual_folder(tmp_path: Path, engine: str, folder: str) -> None:
    api = LxdApi(None, engine=engine, socket=tmp_path / "unix.socket")
    assert api.storage_pools == Path(folder) / "storage-pools"
    (tmp_path / "storage-pools").mkdir()
    assert api.storage_pools == tmp_path / "storage-pools"


def test_fixes_name_the_engine_and_its_client() -> None:
    api = LxdApi(None, engine="incus", socket=Path())
    assert api._error("No space left on device", "create c000", ("instances",)).fix.endswith(
        "incus storage list; gpuprov image list"
    )
    assert "this kernel or Incus cannot" in api._error("missing idmapping abilities", "start", ()).fix
