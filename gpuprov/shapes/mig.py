"""How GPUs are cut by MIG: the file of NVIDIA's mig-parted, as it is, and the documents of `gpuprov host mig`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.words import Words

DeviceId = Annotated[
    str,
    Meta(pattern=r"^0[xX][0-9A-Fa-f]{8}\Z", extra={"allowed": "an id on the PCI bus such as 0x233010DE"}),
]
Index = Annotated[int, Meta(ge=0, le=255)]
Profile = Annotated[str, Meta(pattern=r"^[0-9a-z.+,-]{1,40}\Z", extra={"allowed": "a profile such as 1g.10gb"})]
Label = Annotated[str, Meta(min_length=1, max_length=128)]


class MigEntry(Shape, frozen=True, kw_only=True, rename="kebab"):
    """Which GPUs, and how each is cut.

    Attributes:
        device_filter: Ids of models on the PCI bus; only GPUs of these.
        devices: Indexes of GPUs, or `all`.
        mig_enabled: Whether MIG is on.
        mig_devices: By profile how many; absent or empty for none.
    """

    device_filter: DeviceId | tuple[DeviceId, ...] | UnsetType = UNSET
    devices: Literal["all"] | tuple[Index, ...]
    mig_enabled: bool
    mig_devices: Mapping[Profile, Annotated[int, Meta(ge=0, le=64)]] | UnsetType = UNSET


class MigFile(Shape, frozen=True, kw_only=True, rename="kebab"):
    """What mig-parted reads and writes.

    Attributes:
        mig_configs: By name.
    """

    version: Literal["v1"]
    mig_configs: Mapping[Label, tuple[MigEntry, ...]]


class MigExport(Document, frozen=True, kw_only=True, tag="gpuprov.mig/v1"):
    """The document of `gpuprov host mig export --json`.

    Attributes:
        host: Name of the host.
        simulated: Whether its GPUs are.
        file: What mig-parted would write.
    """

    host: str
    simulated: bool
    file: MigFile


class MigAssertion(Document, frozen=True, kw_only=True, tag="gpuprov.mig-assertion/v1"):
    """The document of `gpuprov host mig assert --json`.

    Attributes:
        host: Name of the host.
        simulated: Whether its GPUs are.
        config: Name of the configuration.
        applied: Whether all GPUs are as it says.
        differences: A line for each that is not.
    """

    host: str
    simulated: bool
    config: str
    applied: bool
    differences: tuple[Words, ...]
