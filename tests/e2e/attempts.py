"""Sent into a node and run there by root: tries each attempt of a JSON table and prints what the kernel said.

Usage in the node: python3 attempts.py '{"name": ["open", ["/dev/mem", "r"]]}'; prints name to errno, or `allowed`.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import stat
import sys
import tempfile
import time
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {  # x86_64
    "acct": 163,
    "delete_module": 176,
    "finit_module": 313,
    "init_module": 175,
    "iopl": 172,
    "kexec_load": 246,
    "ptrace": 101,
    "swapon": 167,
}
OPEN_BY_HANDLE_AT = 304
MS_REMOUNT, MS_BIND = 32, 4096


def check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


def open_file(path: str, mode: str) -> None:
    os.close(os.open(path, os.O_RDONLY if mode == "r" else os.O_WRONLY))


def write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def make(kind: str, major: str, minor: str) -> None:
    path = Path(tempfile.mkdtemp()) / "device"
    os.mknod(path, 0o600 | (stat.S_IFCHR if kind == "c" else stat.S_IFBLK), os.makedev(int(major), int(minor)))
    open_file(str(path), "r")


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path.replace("@", "\0", 1) if path.startswith("@") else path)


def dial(host: str, port: str) -> None:
    socket.create_connection((host, int(port)), timeout=5).close()


def mount(source: str, kind: str, options: str = "") -> str:
    folder = tempfile.mkdtemp()
    check(LIBC.mount(source.encode(), folder.encode(), kind.encode(), 0, options.encode() or None))
    return folder


def mount_and_write(source: str, kind: str, options: str, file: str, text: str) -> None:
    folder = mount(source, kind, options)
    try:
        write(f"{folder}/{file}", text)
    finally:
        LIBC.umount2(folder.encode(), 2)


def remount_and_open(folder: str, path: str) -> None:
    check(LIBC.mount(b"none", folder.encode(), None, MS_REMOUNT | MS_BIND, None))
    open_file(path, "w")


def syscall(name: str, *arguments: str) -> None:
    check(LIBC.syscall(NUMBERS[name], *(ctypes.c_long(int(argument)) for argument in arguments)))


def set_clock() -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.time())


def open_by_handle(kind: str, handle: str) -> None:
    """Open a file of the node's file system by its handle, which no path in the node leads to."""
    content = bytes.fromhex(handle)
    packed = len(content).to_bytes(4, "little") + int(kind).to_bytes(4, "little", signed=True) + content
    inside = os.open("/etc/hosts", os.O_RDONLY)
    check(LIBC.syscall(OPEN_BY_HANDLE_AT, inside, ctypes.create_string_buffer(packed), os.O_RDONLY))


def kill(pid: str) -> None:
    os.kill(int(pid), 0)


ACTS = {
    "open": open_file,
    "write": write,
    "make": make,
    "connect": connect,
    "dial": dial,
    "mount": mount,
    "mount_and_write": mount_and_write,
    "remount_and_open": remount_and_open,
    "syscall": syscall,
    "set_clock": set_clock,
    "open_by_handle": open_by_handle,
    "kill": kill,
}


def attempt(act: str, arguments: list[str]) -> str:
    try:
        ACTS[act](*arguments)  # type: ignore[operator]
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "allowed"


if __name__ == "__main__":
    table = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps({name: attempt(act, arguments) for name, (act, arguments) in table.items()}))
