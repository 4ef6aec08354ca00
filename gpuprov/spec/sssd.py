"""A site's `sssd.conf`, as the spec names it: read, judged, and completed.

sssd itself judges the values; here is found what would leave the nodes without anybody. No message quotes a value, for
it may be a password.
"""

from __future__ import annotations

import configparser
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.spec.rule import SpecRule
from gpuprov.spec.shared_folder import SHARED

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.rule import Found

KEY: Final = "sssd"
LABEL_SSSD: Final = "gpuprov.sssd"  # of an image, kept by its nodes: they take a site's sssd.conf
MOST_BYTES: Final = 64 * 1024
FORM: Final = "a sssd.conf of the host, with `domains` in [sssd] and a section [domain/NAME] for each"
_MOST_DOMAINS: Final = 20
_LONGEST_NAME: Final = 200
# What the image needs for a provider besides what it always has
_PACKAGES: Final = {"ad": "sssd-ad", "ipa": "sssd-ipa", "proxy": "sssd-proxy"}
_PROVIDERS: Final = ("id_provider", "auth_provider", "access_provider", "chpass_provider")


def read_sssd(place: Path) -> tuple[str, str]:
    """The text of a sssd.conf, and why there is none; one of them is empty."""
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            return "", "is no file"
        with place.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode()
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"
    except ValueError:
        return "", "is not UTF-8 text"
    if len(content) > MOST_BYTES:
        return "", f"has more than {MOST_BYTES // 1024} KiB"
    return text, ""


def find_sssd_problems(text: str) -> list[str]:
    """What is wrong with a sssd.conf, in words that quote none of its values but the names of domains."""
    conf, problem = _parse(text)
    if problem:
        return [problem]
    domains = _listed(conf, "domains")
    if not domains or len(domains) > _MOST_DOMAINS:
        return [f"lists {len(domains) or 'no'} domains in [sssd]"]
    services = _listed(conf, "services")
    blind = ["`services` in [sssd] lacks nss: nodes would know nobody"] if services and "nss" not in services else []
    return [*filter(None, (_find_domain_problem(conf, domain) for domain in domains)), *blind]


def _find_domain_problem(conf: configparser.RawConfigParser, domain: str) -> str:
    if not domain.isprintable() or len(domain) > _LONGEST_NAME:
        return "lists a domain in [sssd] whose name is too long, or not printable"
    if not conf.has_section(f"domain/{domain}"):
        return f"has no section [domain/{domain}]"
    return (
        ""
        if conf.get(f"domain/{domain}", "id_provider", fallback="").strip()
        else f"[domain/{domain}] has no id_provider"
    )


def complete_sssd(text: str, *, shared: bool) -> str:
    """What sssd reads besides a sssd.conf without problems: services where it lists none, and homes.

    Args:
        text: The file.
        shared: Whether nodes have the folder that they share, with the homes in it.
    """
    conf, _ = _parse(text)
    parts = [] if _listed(conf, "services") else ["[sssd]\nservices = nss, pam\n"]
    if shared:
        homes = f"override_homedir = {SHARED}/home/%u"
        parts += [f"[domain/{domain}]\n{homes}\n" for domain in _listed(conf, "domains")]
    return "\n".join(parts) or "# nothing\n"


def _parse(text: str) -> tuple[configparser.RawConfigParser, str]:
    """A sssd.conf, and why it is none; without its lines, which may hold a password."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), default_section="\0")
    try:
        parser.read_string(text)
    except configparser.MissingSectionHeaderError as error:
        return parser, f"line {error.lineno} is in no section"
    except configparser.ParsingError as error:
        return parser, f"line {error.errors[0][0]} is neither a section nor KEY = VALUE"
    return parser, "" if parser.has_section("sssd") else "has no section [sssd]"


def _listed(conf: configparser.RawConfigParser, key: str) -> list[str]:
    words = (word.strip() for word in conf.get("sssd", key, fallback="").replace("\n", ",").split(","))
    return list(dict.fromkeys(word for word in words if word))


def _find(spec: ClusterSpec, root: Path) -> Found:
    path = spec.sssd
    if path is None:
        return
    if not path.startswith("/") or ".." in PurePosixPath(path).parts or not path.isprintable():
        yield KEY, f"{path[:80]!r} is not an absolute path without `..`", FORM
    elif not spec.hosts:  # which do not have it: whoever asks them sends it
        yield from find_faults_of_file(spec, *read_sssd(root / path.lstrip("/")))


def find_faults_of_file(spec: ClusterSpec, text: str, unread: str) -> Found:
    """What is wrong with the file that a spec names, as a rule finds it.

    Args:
        spec: That spec.
        text: What `read_sssd` read.
        unread: And why it did not.
    """
    for message in [unread] if unread else find_sssd_problems(text):
        yield KEY, f"{spec.sssd} {message}", FORM
    if not unread:
        yield from _find_lacking(spec, text)


def _find_lacking(spec: ClusterSpec, text: str) -> Found:
    """Packages that its providers need, and that the image would not have."""
    conf, _ = _parse(text)
    names = {conf.get(section, key, fallback="").strip() for section in conf.sections() for key in _PROVIDERS}
    for provider in sorted(names & _PACKAGES.keys()):
        package = _PACKAGES[provider]
        if package not in spec.image.packages:
            yield "image.packages", f"lacks {package}, which the provider {provider} of sssd needs", f"with {package}"


RULES: Final = (SpecRule(reads=(KEY, "hosts", "image.packages"), find=_find),)
