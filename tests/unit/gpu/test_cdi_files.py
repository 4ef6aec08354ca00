from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.gpu.cdi_files import find_cdi_versions

if TYPE_CHECKING:
    from pathlib import Path

MOUNT = """kind: {kind}
containerEdits:
  mounts:
  - hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.0
  - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14
"""


def test_only_files_for_nvidia_gpus_count(tmp_path: Path) -> None:
    for name, text in {
        "etc/cdi/nvidia.yaml": MOUNT.format(kind="nvidia.com/gpu"),
        "var/run/cdi/nvidia.json": '{"kind": "nvidia.com/gpu", "hostPath": "/usr/lib64/libcuda.so.570.86"}',
        "etc/cdi/other.yaml": MOUNT.format(kind="vendor.com/net"),
        "etc/cdi/nvidia.yaml.bak": MOUNT.format(kind="nvidia.com/gpu"),
        "etc/cdi/empty.yaml": "kind: nvidia.com/gpu",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "etc/cdi/binary.json").write_bytes(b"\xff\xfe\x00")
    assert find_cdi_versions(tmp_path) == {"/etc/cdi/nvidia.yaml": "550.54.14", "/var/run/cdi/nvidia.json": "570.86"}
    assert find_cdi_versions(tmp_path / "nowhere") == {}
