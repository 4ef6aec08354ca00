"""The probe as one text that Python runs in a node where gpuprov is not installed."""

from __future__ import annotations

from importlib import resources

_MODULES = ("questions", "probe")  # each after those that it imports
_START = """
import sys, types
for name, text in {texts!r}.items():
    sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec", dont_inherit=True), sys.modules[name].__dict__)
sys.modules["gpuprov.verify.probe"].main()
"""


def probe_program() -> str:
    """For `python3 -c`, with the parameters of the probe as the one argument."""
    folder = resources.files("gpuprov.verify")
    texts = {f"gpuprov.verify.{name}": (folder / f"{name}.py").read_text(encoding="utf-8") for name in _MODULES}
    return _START.format(texts=texts)
