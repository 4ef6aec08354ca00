"""Write the password of a lab's broker, once, and what has it in it. Prints `changed` if anything was.

The template of RabbitMQ's definitions is on stdin. The password is in no argument, and nothing prints it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import shutil
import sys
from pathlib import Path

SALT = 4
HASH = "PASSWORD_HASH"  # in the template


def hash_password(password: str) -> str:
    """As RabbitMQ keeps it; the salt is made from the password, so that the same password is the same text."""
    salt = hashlib.sha256(b"salt" + password.encode()).digest()[:SALT]
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def write(path: Path, content: str, *, mode: int, group: str) -> bool:
    """Write a file of root's whole or not at all; whether it was not yet so."""
    if path.is_file() and path.read_text() == content and _describe(path) == ("root", group, mode):
        return False
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
    shutil.chown(part, "root", group)
    part.chmod(mode)
    part.replace(path)
    return True


def _describe(path: Path) -> tuple[str, str, int]:
    return path.owner(), path.group(), path.stat().st_mode & 0o7777


def main(folder: Path, address: str, group: str, template: str) -> None:
    """Write three files: the password (root's alone), the URL (of the group too), the definitions (root's alone)."""
    folder.mkdir(mode=0o755, exist_ok=True)
    kept = folder / "password"
    password = kept.read_text().strip() if kept.is_file() else ""
    if not re.fullmatch("[0-9a-f]{64}", password):
        password = secrets.token_hex(32)
    changed = [
        write(kept, f"{password}\n", mode=0o600, group="root"),
        write(folder / "broker", f"amqp://gpuwork:{password}@{address}/gpuwork\n", mode=0o640, group=group),
        write(folder / "definitions.json", template.replace(HASH, hash_password(password)), mode=0o600, group="root"),
    ]
    if any(changed):
        sys.stdout.write("changed\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.stdin.read())
