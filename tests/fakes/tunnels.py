"""A machine's `ip`, `wg`, `nft` and `bridge`, as far as an encrypted overlay uses them."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.execution import Completed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def public_key(private: str) -> str:
    """Some key that belongs to another, and that nobody takes for it."""
    return base64.b64encode(hashlib.sha256(private.encode()).digest()).decode()


@dataclass
class FakeMachine:
    """A machine with one address and the bridge of the private network.

    Attributes:
        links: As `ip -j -d link show` tells them.
        addresses: By link, with their prefix lengths.
        wg: By device: private key, port, and peers with endpoint and allowed addresses.
        entries: Peers of the VXLAN device.
        tables: Of nft, each with its chains that have rules.
        said: Every command that changes something.
        refuses: A command that fails.
        in_kernel: Whether the kernel has WireGuard.
    """

    links: dict[str, dict[str, Any]] = field(default_factory=dict)
    addresses: dict[str, list[str]] = field(default_factory=lambda: {"eth0": ["10.9.0.1/24"]})
    wg: dict[str, dict[str, Any]] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)
    tables: dict[str, list[str]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    refuses: str = ""
    in_kernel: bool = True

    def __post_init__(self) -> None:
        bridge = {"linkinfo": {"info_kind": "bridge"}, "flags": ["UP"], "mtu": 1500}
        self.links = {"eth0": {"flags": ["UP"], "mtu": 1500}, "gpbr1": bridge} | self.links

    def run(self, argv: Sequence[str], *, stdin: str = "", check: bool = True, **_: Any) -> Completed:
        line = " ".join(argv)
        if self.refuses and line.startswith(self.refuses):
            return self._answer(argv, "", 1, "RTNETLINK answers: Address already in use")
        told = self._tell(argv, line, stdin)
        if told is None:
            self.said.append(line)
            self._change(list(argv), stdin)
            told = ""
        failed = told == "fails"
        assert not (failed and check), line
        return self._answer(argv, "" if failed else told, int(failed), "")

    @staticmethod
    def _answer(argv: Sequence[str], stdout: str, code: int, stderr: str) -> Completed:
        return Completed(argv=tuple(argv), exit_code=code, stdout=stdout, stderr=stderr, seconds=0.0)

    def _tell(self, argv: Sequence[str], line: str, stdin: str) -> str | None:
        """What a question is answered; None for what is none."""
        answers: dict[str, Callable[[], str]] = {
            "ip -j -d link show": lambda: json.dumps([{"ifname": name, **link} for name, link in self.links.items()]),
            "ip -j -4 address": lambda: self._tell_addresses([argv[-1]] if "dev" in argv else list(self.addresses)),
            "ip -j -4 route": lambda: "[]",
            "bridge -j fdb": lambda: json.dumps([{"mac": "00:00:00:00:00:00", "dst": dst} for dst in self.entries]),
            "nft -j list table": lambda: self._tell_table(argv[-1]),
            "wg genkey": lambda: base64.b64encode(b"p" * 32).decode() + "\n",
            "wg pubkey": lambda: public_key(stdin.strip()) + "\n",
            "wg show": lambda: self._show(*argv[2:]),
            "modprobe": lambda: "" if self.in_kernel else "fails",
        }
        return next((answer() for asked, answer in answers.items() if line.startswith(asked)), None)

    def _tell_addresses(self, names: Sequence[str]) -> str:
        return json.dumps([{"ifname": name, "addr_info": self._held(name)} for name in names])

    def _tell_table(self, name: str) -> str:
        chains = self.tables.get(name)
        rules = [{"rule": {"chain": chain}} for chain in chains or ()]
        return "fails" if chains is None else json.dumps({"nftables": rules})

    def _held(self, name: str) -> list[dict[str, Any]]:
        held = (address.split("/") for address in self.addresses.get(name, ()))
        return [{"family": "inet", "local": local, "prefixlen": int(length)} for local, length in held]

    def _show(self, device: str, what: str) -> str:
        seen = self.wg.get(device)
        if seen is None:
            return "fails"
        if what == "public-key":
            return public_key(seen["private"]) if seen["private"] else "(none)"
        if what == "listen-port":
            return str(seen["port"])
        column = {"endpoints": "endpoint", "allowed-ips": "allowed-ips", "latest-handshakes": "heard"}[what]
        return "".join(f"{key}\t{peer.get(column, 0)}\n" for key, peer in seen["peers"].items())

    def _change(self, argv: list[str], stdin: str) -> None:
        match argv:
            case ["wireguard-go", name]:
                self._add(name, {"info_kind": "tun"}, mtu=1420)
            case ["ip", "link", *more]:
                self._change_link(more)
            case ["ip", "address", "add", address, "dev", name]:
                self.addresses.setdefault(name, []).append(address)
            case ["ip", "address", "del", address, "dev", name]:
                self.addresses[name].remove(address)
            case ["wg", "set", name, *more]:
                self._change_tunnel(name, more)
            case ["nft", *words]:
                for command in " ".join(words).split(" ; "):
                    self._filter(command.split())
            case _:
                assert argv == ["bridge", "-batch", "-"]
                for entry in stdin.splitlines():
                    change = self.entries.append if " append " in entry else self.entries.remove
                    change(entry.split()[-1])

    def _change_link(self, argv: list[str]) -> None:
        match argv:
            case ["add", "name", name, "mtu", mtu, "type", "vxlan", *more]:
                values = dict(pairwise(more))
                data = {"id": int(values["id"]), "port": int(values["dstport"]), "local": values["local"]}
                self.entries = []
                self._add(name, {"info_kind": "vxlan", "info_data": data}, mtu=int(mtu))
            case ["add", "name", name, "type", kind]:
                self._add(name, {"info_kind": kind}, mtu=1420)
            case ["del", "dev", name]:
                for kept in (self.links, self.wg, self.addresses):
                    kept.pop(name, None)
            case ["set", "dev", name, "up"]:
                self.links[name]["flags"].append("UP")
            case ["set", "dev", name, "type", "bridge_slave", "isolated", "on"]:
                self.links[name]["linkinfo"]["info_slave_data"] = {"isolated": True}
            case _:
                _, _, name, key, value = argv
                self.links[name][{"alias": "ifalias"}.get(key, key)] = int(value) if key == "mtu" else value

    def _change_tunnel(self, name: str, argv: list[str]) -> None:
        match argv:
            case ["listen-port", port, "private-key", path]:
                self.wg[name] |= {"port": int(port), "private": Path(path).read_text(encoding="ascii").strip()}
            case ["peer", key, "remove"]:
                del self.wg[name]["peers"][key]
            case _:
                _, key, *more = argv
                self.wg[name]["peers"][key] = dict(zip(more[::2], more[1::2], strict=True))

    def _add(self, name: str, info: dict[str, Any], mtu: int) -> None:
        self.links[name] = {"linkinfo": info, "flags": [], "mtu": mtu}
        if info["info_kind"] in ("wireguard", "tun"):
            self.wg[name] = {"private": "", "port": 0, "peers": {}}

    def _filter(self, command: list[str]) -> None:
        match command[:4]:
            case ["add", "table", "inet", table]:
                self.tables.setdefault(table, [])
            case ["delete", "table", "inet", table]:
                del self.tables[table]
            case ["add", "rule", "inet", table]:
                self.tables[table].append(command[4])
