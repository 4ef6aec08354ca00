"""What is looked up for a judgement."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpuprov.runtime.surroundings import observe_surroundings, read_mount_points

if TYPE_CHECKING:
    from pathlib import Path


def test_links_are_followed_and_namespaces_of_this_process_are_the_host_s(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/link").symlink_to("/etc")
    spec = {
        "mounts": [
            {"destination": "/a", "type": "bind", "source": str(tmp_path / "data/link/ssl")},
            {"destination": "/b", "type": "bind", "source": "beside"},
            {"destination": "/proc", "type": "proc", "source": "proc"},
        ],
        "linux": {
            "namespaces": [{"type": "network", "path": "/proc/self/ns/net"}, {"type": "pid", "path": "/nowhere"}]
        },
    }
    bundle = tmp_path / "bundle"
    around = observe_surroundings(spec, container="c", data_root="", allowed=["/bin"], bundle=bundle)
    assert around.real == {
        str(tmp_path / "data/link/ssl"): "/etc/ssl",
        "beside": str(bundle / "beside"),
        "/bin": os.path.realpath("/bin"),
    }
    assert around.host_namespaces == {"/proc/self/ns/net"}
    assert "/proc" in around.mounted


def test_places_with_spaces_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text("36 35 98:0 / /a\\040b rw - ext4 /dev/x rw\n\n37 35\n")
    assert read_mount_points(tmp_path) == ["/a b"]
