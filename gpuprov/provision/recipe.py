"""What a node image is made of, and the fingerprint that tells one recipe from another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.assets import get_asset, get_brought
from gpuprov.core.fingerprint import fingerprint
from gpuprov.provision.kept_bases import Base
from gpuprov.provision.role_packages import find_packages
from gpuprov.provision.role_recipe import RoleRecipe, with_sssd
from gpuprov.provision.user_roles import hash_role
from gpuprov.provision.wheel_lock import hash_locks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.gpu.wheels import CudaWheels
    from gpuprov.provision.role_recipe import Init
    from gpuprov.shapes.cluster_spec import ClusterSpec, ImageSpec


ENGINE_IMAGE = "image:"  # a base that the engine already has
NUMBA = "numba-cuda{}>=0.30,<0.31"
NUMPY = "numpy<2.5"  # numba-cuda 0.30 compiles nothing for a GPU without np.row_stack, which NumPy 2.5 removed
REQUIREMENTS: dict[CudaWheels, tuple[str, ...]] = {
    # Even the simulator asks CUDA's runtime library for its version when it is imported.
    "none": (NUMBA.format(""), NUMPY, "nvidia-cuda-runtime>=13,<14", "nvidia-ml-py"),
    "cu12": (NUMBA.format("[cu12]"), NUMPY, "nvidia-ml-py"),
    "cu13": (NUMBA.format("[cu13]"), NUMPY, "nvidia-ml-py"),
}
# What builds CUDA programs, and what runs them together. nvcc 13 does not support GPUs before Turing, for which CUDA
# 12's NVRTC compiles the kernels; with simulated GPUs g++ suffices.
TOOLKIT_PACKAGES = ("g++", "openssl")
_DASK = ("bokeh>=3.1", "distributed>=2024.8")  # without Bokeh Dask has no page
_NVCC = ("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-nvvm")
TOOLKIT: dict[CudaWheels, tuple[str, ...]] = {
    "none": _DASK,
    "cu12": (*_DASK, "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12"),
    "cu13": (*_DASK, *(f"{name}>=13,<14" for name in _NVCC)),
}
COMMON_ROLES = ("base", "cuda")
# What roles need to be applied, besides the packages that they install themselves.
ROOTFS_PACKAGES = ("ca-certificates", "dbus", "iproute2", "python3", "python3-apt", "systemd", "systemd-sysv")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides what is in an image.

    Attributes:
        base: A suite that mmdebstrap builds, or `image:NAME`.
        packages: Packages on top of the roles' own.
        requirements: Python packages, as pip writes them.
        roles_path: The folder with the roles.
        smoke_kernels: The folder of that package.
        init: What starts the services of a node.
        role: What the role of its nodes adds.
        brought: The folders of the packages that the role brings.
        own_roles: Folders of the user's own roles, applied last.
    """

    base: str
    packages: tuple[str, ...]
    requirements: tuple[str, ...]
    roles_path: Path
    smoke_kernels: Path
    init: Init = "systemd"
    role: RoleRecipe = field(default_factory=RoleRecipe)
    brought: tuple[Path, ...] = ()
    own_roles: tuple[Path, ...] = ()

    @property
    def engine_image(self) -> str | None:
        """The engine's image it starts from; None where the base is built."""
        return self.base.removeprefix(ENGINE_IMAGE) if self.base.startswith(ENGINE_IMAGE) else None

    @property
    def roles(self) -> tuple[str, ...]:
        """Ansible roles of gpuprov's, in the order they are applied."""
        return (*COMMON_ROLES, *self.role.roles)

    @property
    def rootfs(self) -> Base:
        """What mmdebstrap installs: also what the roles would, which find it there. All of it is in the fingerprint."""
        packages = find_packages(self.roles_path, self.roles, init=self.init)
        kind = "-".join((*self.role.roles, self.init))
        return Base(suite=self.base, packages=tuple(sorted({*ROOTFS_PACKAGES, *packages})), kind=kind)

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that change with anything that changes the image."""
        return self.fingerprint_with(self.hash_contents())

    def hash_contents(self) -> dict[str, object]:
        """The hashes of all folders that it reads.

        Raises:
            HostNotReady: One of the user's own roles cannot be read.
        """
        templates = self.roles_path.parent / "templates"
        folders = [*(self.roles_path / role for role in self.roles), self.smoke_kernels, *self.brought]
        return {
            "templates": [hash_folder(templates / name) for name in self.role.templates],
            "content": {folder.name: hash_folder(folder) for folder in folders},
            "own_roles": [[folder.name, hash_role(folder)] for folder in self.own_roles],
            "locked": hash_locks(("pip", *self.requirements)),
        }

    def fingerprint_with(self, contents: Mapping[str, object]) -> str:
        """Its fingerprint, where the folders were hashed a moment ago."""
        return fingerprint(
            {
                "base": self.base,
                "init": self.init,
                "rootfs": ROOTFS_PACKAGES,
                "packages": self.packages,
                "requirements": self.requirements,
                "variables": self.role.variables(self.init),
                **contents,
            }
        )


def image_recipe(
    spec: ImageSpec, *, role: RoleRecipe, wheels: CudaWheels, init: Init, roles_path: Path, smoke_kernels: Path
) -> Recipe:
    """The recipe of the image for nodes of a role.

    Args:
        spec: Base, and what its user adds.
        role: What the nodes' role adds.
        wheels: CUDA's Python packages that serve the host; `none` for simulated GPUs.
        init: What starts the services of a node: `systemd` where the engine can run it.
        roles_path: The folder with the roles.
        smoke_kernels: The folder of that package.
    """
    return Recipe(
        base=spec.base,
        packages=tuple(sorted({*spec.packages, *role.packages, *(TOOLKIT_PACKAGES if spec.toolkit else ())})),
        requirements=(
            *(*REQUIREMENTS[wheels], *role.requirements, *(TOOLKIT[wheels] if spec.toolkit else ())),
            *sorted(set(spec.python)),
        ),
        roles_path=roles_path,
        smoke_kernels=smoke_kernels,
        init=init,
        role=role,
        brought=tuple(map(get_brought, role.brings)),
        own_roles=tuple(map(Path, spec.roles)),
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


def recipe_for(spec: ClusterSpec, role: RoleRecipe, wheels: CudaWheels, *, init: Init) -> Recipe:
    """What goes into the image of nodes of a role, on hosts with these packages of CUDA's."""
    return image_recipe(
        spec.image,
        role=with_sssd(role) if spec.sssd else role,
        wheels=wheels,
        init=init,
        roles_path=get_asset("roles"),
        smoke_kernels=get_asset("smoke_kernels"),
    )
