"""gpuprov itself as a wheel, packed from where it runs: a checkout needs no build tools and no index for that."""

from __future__ import annotations

import base64
import configparser
import hashlib
import zipfile
from importlib import metadata
from typing import TYPE_CHECKING, Final, get_args

from gpuprov import __version__
from gpuprov.assets import PACKAGE, Asset, get_asset
from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.provision.unfinished import unfinished_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_INFO: Final = f"gpuprov-{__version__}.dist-info"
_COLLECTION: Final = "ansible_collections/gpuprov/cluster"
_ALONE: Final = ("lab.yml", "tasks")  # what lies beside the folders of get_asset
_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: gpuprov\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_SCRIPTS: Final = "[console_scripts]\ngpuprov=gpuprov.cli.main:main\n"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def own_requirements() -> tuple[str, ...]:
    """The Python packages that gpuprov needs, as pip writes them."""
    from packaging.requirements import Requirement

    setup = PACKAGE.parent / "setup.cfg"
    if setup.is_file():  # a checkout may be ahead of what was installed from it
        config = configparser.ConfigParser()
        config.read(setup, encoding="utf-8")
        return tuple(filter(None, config["options"]["install_requires"].split("\n")))
    lines = metadata.requires("gpuprov") or ()
    return tuple(line for line in lines if "extra" not in str(Requirement(line).marker))


def own_fingerprint(files: Mapping[str, Path]) -> str:
    """A word that changes with the content of gpuprov and with what it needs."""
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    return short(fingerprint([hashes, list(own_requirements())]))


def own_files() -> dict[str, Path]:
    """Every file of gpuprov and its place in a wheel, in a fixed order."""
    found = dict(_below(PACKAGE, "gpuprov"))
    for name in get_args(Asset):
        found |= _below(get_asset(name), f"gpuprov/_assets/{name}")
    beside = get_asset("roles").parent
    for name in _ALONE:
        found |= _below(beside / name, f"gpuprov/_assets/{name}")
    found |= _below(PACKAGE.parent / _COLLECTION, _COLLECTION)
    return dict(sorted(found.items()))


def pack_wheel(files: Mapping[str, Path], cache: Path) -> Path:
    """The wheel, made once and kept; its name does not tell its content, so it lies in a folder of its own."""
    kept = cache / f"gpuprov-{own_fingerprint(files)}" / f"gpuprov-{__version__}-py3-none-any.whl"
    if not kept.is_file():
        draft = unfinished_file(cache, "own")
        records = []
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in (*((name, path.read_bytes()) for name, path in files.items()), *_info()):
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                records.append(f"{name},sha256={digest},{len(content)}\n")
            records.append(f"{_INFO}/RECORD,,\n")
            archive.writestr(zipfile.ZipInfo(f"{_INFO}/RECORD", _EPOCH), "".join(records))
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft.replace(kept)
    return kept


def _info() -> Iterator[tuple[str, bytes]]:
    needs = "".join(f"Requires-Dist: {line}\n" for line in own_requirements())
    about = f"Metadata-Version: 2.1\nName: gpuprov\nVersion: {__version__}\n{needs}"
    for name, content in (("METADATA", about), ("WHEEL", _WHEEL), ("entry_points.txt", _SCRIPTS)):
        yield f"{_INFO}/{name}", content.encode()


def _below(place: Path, name: str) -> Iterator[tuple[str, Path]]:
    """The files of a folder, or the file itself; what Python compiled does not count."""
    for path in [place] if place.is_file() else place.rglob("*"):
        relative = path.relative_to(place)
        if path.is_file() and "__pycache__" not in path.parts:
            yield (f"{name}/{relative}" if relative.parts else name), path
