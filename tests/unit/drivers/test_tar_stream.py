from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.drivers.tar_stream import BadTar, TarEntry, TarStream

if TYPE_CHECKING:
    from collections.abc import Callable


def member(name: str = "./a", content: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: Any) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


END = bytes(1024)


def read(packed: bytes, piece_bytes: int = 10_000) -> list[tuple[TarEntry, bytes]]:
    found: list[tuple[TarEntry, bytearray]] = []

    def write(piece: bytes) -> None:
        found[-1][1].extend(piece)

    stream = TarStream(lambda entry: found.append((entry, bytearray())), write)
    for start in range(0, len(packed), piece_bytes):
        stream.take(packed[start : start + piece_bytes])
    stream.finish()
    return [(entry, bytes(content)) for entry, content in found]


@pytest.mark.parametrize("piece_bytes", [1, 7, 511, 512, 513, 10_000])
def test_pieces_may_have_any_size(piece_bytes: int) -> None:
    long = "/".join(["folder" * 10] * 8)
    packed = (
        member("./", kind=tarfile.DIRTYPE, mode=0o2755)
        + member("./a", b"x" * 512, mode=0o4640, mtime=17)
        + member(f"./{long}", b"y" * 700)
        + member("./empty")
        + member("./link", kind=tarfile.SYMTYPE, linkname="t" * 300)
        + END
    )
    found = read(packed, piece_bytes)
    assert [(entry.kind, "/".join(entry.parts), content) for entry, content in found] == [
        ("folder", "", b""),
        ("file", "a", b"x" * 512),
        ("file", long, b"y" * 700),
        ("file", "empty", b""),
        ("link", "link", b""),
    ]
    assert [(entry.mode, entry.changed_s) for entry, _ in found[:2]] == [(0o755, 0), (0o640, 17)]


def test_a_file_may_be_larger_than_eight_digits_say() -> None:
    begun: list[TarEntry] = []
    info = tarfile.TarInfo("huge")
    info.size, info.mtime = 9 * 10**12, -5
    TarStream(begun.append, lambda _piece: None).take(info.tobuf(tarfile.GNU_FORMAT))
    assert (begun[0].size, begun[0].changed_s) == (9 * 10**12, 0)


def long_name(kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) + bytes([97]) * size + bytes(-size % 512)


def damaged(change: Callable[[bytearray], object]) -> bytes:
    header = bytearray(member())
    change(header)
    return bytes(header) + END


BAD = {
    "nothing": b"",
    "no end": member("./a", b"x"),
    "cut in a file": member("./a", b"x" * 600)[:900],
    "cut in a header": member()[:100],
    "no tar": b"#!/bin/sh\n" * 100,
    "a digit of the sum": damaged(lambda header: header.__setitem__(148, header[148] ^ 1)),
    "another format": tarfile.TarInfo("a").tobuf(tarfile.PAX_FORMAT) + END,
    "letters for a number": damaged(lambda header: header.__setitem__(slice(124, 128), b"zzzz")),
    "up": member("./../a") + END,
    "up at the end": member("./a/..", kind=tarfile.DIRTYPE) + END,
    "from the root": member("/etc/a") + END,
    "a long way up": member(f"./{'a/' * 100}../{'../' * 100}x") + END,
    "a link with content": member("./a", b"x", tarfile.SYMTYPE) + END,
    "a sparse file": member("./a", b"x", tarfile.GNUTYPE_SPARSE) + END,
    "an extended header": member("./a", b"17 path=/etc/abc\n", tarfile.XHDTYPE) + member() + END,
    "a huge name": long_name(tarfile.GNUTYPE_LONGNAME, 1_000_000) + member() + END,
    "names without end": long_name(tarfile.GNUTYPE_LONGNAME, 9) * 3 + member() + END,
    "targets without end": long_name(tarfile.GNUTYPE_LONGLINK, 9) * 3 + member() + END,
    "a name of nothing": long_name(tarfile.GNUTYPE_LONGNAME, 0) + member() + END,
    "something behind the end": member() + END + b"x",
    "zeros without end": member() + END + bytes(30_000_000),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_proper_tar_is_refused(case: str) -> None:
    with pytest.raises(BadTar) as caught:
        read(BAD[case])
    assert str(caught.value)
