"""A spec file, read strictly: whatever is wrong in it is reported at once, with path and line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.shapes.base import changed
from gpuprov.spec.decode import API_VERSION, decode_spec
from gpuprov.spec.document import parse_yaml, problem
from gpuprov.spec.draft import Draft, left_open
from gpuprov.spec.image_files import take_in_files
from gpuprov.spec.python_packages import FORM
from gpuprov.spec.schema import Decoder
from gpuprov.spec.spec_error import SpecError
from gpuprov.spec.validate import find_problems

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpuprov.spec.rule import SpecRule


def load_draft(
    path: Path | str, *, roles: Collection[str], rules: Collection[SpecRule] = (), root: Path = Path("/")
) -> Draft:
    """Read a `gpuprov/v1` file (docs/spec.md).

    Args:
        path: The YAML file.
        roles: What `nodes.role` may be.
        rules: Of these roles.
        root: Where the host's file system begins; the sources of mounts and the image's files are looked up below it.

    Raises:
        SpecError: Listing every problem: unreadable file, syntax, keys, types and meaning.
    """
    name = str(path)
    try:
        text = Path(path).read_bytes().decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        unreadable = problem(name, None, f"cannot be read: {reason}")
        raise SpecError(
            f"cannot read the spec {name}", problems=(unreadable,), fix=f"ls -l {name}; start from examples/lab.yaml"
        ) from error
    return read_draft(text, name=name, roles=roles, rules=rules, root=root, folder=Path(path).parent)


def read_draft(
    text: str,
    *,
    name: str,
    roles: Collection[str],
    rules: Collection[SpecRule] = (),
    root: Path = Path("/"),
    folder: Path = Path(),
) -> Draft:
    """Read the text of a spec of that folder; `name` is what errors call it. Raises SpecError with every problem."""
    document, problems = parse_yaml(text)
    decoder = Decoder()
    spec, left = None, left_open(())
    if document is None:
        problems = problems or [problem("version", None, "the file is empty", allowed=API_VERSION)]
    else:
        decoder.broken.update(found.where for found in problems)
        spec = decode_spec(document, decoder)
        problems += decoder.problems
    if spec is not None:
        lines = decoder.lines
        left = left_open(lines)
        image, wrong = take_in_files(spec.image, folder, root=root)
        at = "image.requirements"
        problems += [problem(at, lines.get(at), message, allowed=FORM) for message in wrong]
        spec = replace(spec, image=image)
        found = find_problems(spec, roles=roles, rules=rules, broken=left | decoder.broken, root=root)
        problems += [changed(bad, line=lines.get(bad.where)) for bad in found]
    if problems or spec is None:
        many = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
        raise SpecError(
            f"{many} in the spec {name}",
            problems=tuple(problems),
            fix=f"correct {name}; docs/spec.md describes all keys; examples/lab.yaml contains them with their defaults",
        )
    return Draft(spec=spec, left=left, engine_open="engine" not in decoder.lines)
