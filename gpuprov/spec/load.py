"""A spec file, read strictly: whatever is wrong in it is reported at once, with path and line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.redact import hide_secrets
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import API_VERSION, ClusterSpec, WrittenSpec
from gpuprov.shapes.faults import find_faults
from gpuprov.spec.document import SPEC, parse_yaml, problem
from gpuprov.spec.draft import CHOOSABLE, Draft
from gpuprov.spec.image_files import place_of, take_in_files
from gpuprov.spec.python_packages import FORM
from gpuprov.spec.spec_error import SpecError
from gpuprov.spec.validate import find_problems

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpuprov.shapes.faults import Fault
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
    if document is None:
        problems = problems or [problem("version", None, "the file is empty", allowed=API_VERSION)]
        raise _refused(name, problems)
    values, faults = find_faults(WrittenSpec, document, file=SPEC, hide=hide_secrets)
    refused = {found.where for found in problems}
    problems += [fault for fault in faults if fault.where not in refused]
    spec = ClusterSpec(**values)
    image, wrong = take_in_files(spec.image, folder, root=root)
    spec = changed(spec, image=image, sssd=spec.sssd and place_of(spec.sssd, folder))
    left = frozenset(path for path in CHOOSABLE if document.at(path) is None)
    broken = left | {found.where for found in problems}
    problems += [problem("image.requirements", None, message, allowed=FORM) for message in wrong]
    problems += find_problems(spec, roles=roles, rules=rules, broken=broken, root=root)
    if problems:
        raise _refused(
            name,
            [one if one.line is not None else changed(one, line=document.line_of(one.where)) for one in problems],
        )
    return Draft(spec=spec, left=left, engine_open=document.at("engine") is None)


def _refused(name: str, problems: list[Fault]) -> SpecError:
    many = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
    return SpecError(
        f"{many} in the spec {name}",
        problems=tuple(problems),
        fix=f"correct {name}; docs/spec.md describes all keys; examples/lab.yaml contains them with their defaults",
    )
