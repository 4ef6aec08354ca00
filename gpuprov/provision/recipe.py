"""What a node image is made of, and the fingerprint that tells one recipe from another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpuprov.core.errors import UsageError
from gpuprov.core.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from gpuprov.spec.models import ImageSpec, Role

CudaWheels = Literal["none", "cu12", "cu13"]
Init = Literal["systemd", "runit"]

ENGINE_IMAGE = "image:"  # a base that the engine already has
NUMBA = "numba-cuda{}>=0.30,<0.31"
REQUIREMENTS: dict[CudaWheels, tuple[str, ...]] = {
    # Even the simulator asks CUDA's runtime library for its version when it is imported.
    "none": (NUMBA.format(""), "numpy", "nvidia-cuda-runtime>=13,<14", "nvidia-ml-py"),
    "cu12": (NUMBA.format("[cu12]"), "numpy", "nvidia-ml-py"),
    "cu13": (NUMBA.format("[cu13]"), "numpy", "nvidia-ml-py"),
}
COMMON_ROLES = ("base", "cuda")
# What only building needs to know; a change of it must make new images too.
ROOTFS_PACKAGES = ("ca-certificates", "dbus", "iproute2", "python3", "python3-apt", "systemd", "systemd-sysv")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides what is in an image.

    Attributes:
        base: A suite that mmdebstrap builds, or `image:NAME`.
        packages: Packages on top of the roles' own.
        roles: Ansible roles, in the order they are applied.
        requirements: Python packages, as pip writes them.
        roles_path: The folder with the roles.
        smoke_kernels: The folder of that package.
        init: What starts the services of a node.
    """

    base: str
    packages: tuple[str, ...]
    roles: tuple[str, ...]
    requirements: tuple[str, ...]
    roles_path: Path
    smoke_kernels: Path
    init: Init = "systemd"

    @property
    def engine_image(self) -> str | None:
        """The engine's image it starts from; None where the base is built."""
        return self.base.removeprefix(ENGINE_IMAGE) if self.base.startswith(ENGINE_IMAGE) else None

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that change with anything that changes the image."""
        folders = [*(self.roles_path / role for role in self.roles), self.smoke_kernels]
        return fingerprint(
            {
                "base": self.base,
                "init": self.init,
                "rootfs": ROOTFS_PACKAGES,
                "packages": self.packages,
                "requirements": self.requirements,
                "content": {folder.name: hash_folder(folder) for folder in folders},
            }
        )


def image_recipe(
    spec: ImageSpec, *, role: Role, wheels: CudaWheels, init: Init, roles_path: Path, smoke_kernels: Path
) -> Recipe:
    """The recipe of the image for nodes of this role.

    Args:
        spec: Base and packages.
        role: What the nodes are for.
        wheels: CUDA's Python packages by the major version of the host's driver; `none` for simulated GPUs.
        init: What starts the services of a node: `systemd` where the engine can run it.
        roles_path: The folder with the roles.
        smoke_kernels: The folder of that package.

    Raises:
        UsageError: There is no such role.
    """
    if role != "plain" and not (roles_path / role).is_dir():
        there = sorted(path.name for path in roles_path.iterdir() if path.is_dir())
        raise UsageError(
            f"there is no image for the role {role!r}",
            evidence=f"roles: {', '.join(there)}",
            fix="use plain or slurm",
        )
    return Recipe(
        base=spec.base,
        packages=tuple(sorted(set(spec.packages))),
        roles=COMMON_ROLES if role == "plain" else (*COMMON_ROLES, role),
        requirements=REQUIREMENTS[wheels],
        roles_path=roles_path,
        smoke_kernels=smoke_kernels,
        init=init,
    )


def hash_folder(folder: Path) -> str:
    """Hash the names and contents of a folder's files; documentation and what Python compiled do not count."""
    digest = hashlib.sha256()
    for path in source_files(folder):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def source_files(folder: Path) -> Iterable[Path]:
    """The files below a folder, in a fixed order, without documentation and what Python compiled."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if "__pycache__" not in path.parts and path.suffix != ".md")
