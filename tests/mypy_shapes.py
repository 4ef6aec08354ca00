"""A plugin for mypy: functions of `dataclasses` are not given shapes, which they would refuse at run time alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy.plugin import Plugin
from mypy.plugins.dataclasses import replace_function_sig_callback
from mypy.types import CallableType, Instance, ProperType, TypeVarType, UnionType, get_proper_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy.plugin import FunctionSigContext

_SHAPE: Final = "gpuprov.shapes.base.Shape"
_REPLACE: Final = "dataclasses.replace"
_INSTEAD: Final = {
    _REPLACE: "changed",
    "dataclasses.asdict": "write",
    "dataclasses.fields": "msgspec.structs.fields",
    "gpuprov.core.fingerprint.plain_fields": "write",
}


class _Shapes(Plugin):
    """Tells what to use instead."""

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], CallableType] | None:
        """Of those functions."""
        if fullname not in _INSTEAD:
            return None

        def signature(context: FunctionSigContext) -> CallableType:
            given = context.args[0] if context.args else []
            if given and _is_shape(get_proper_type(context.api.get_expression_type(given[0]))):
                context.api.fail(f"{fullname} takes no shape; use {_INSTEAD[fullname]}", context.context)
                return context.default_signature
            if fullname == _REPLACE:
                return replace_function_sig_callback(context)  # as mypy itself does
            return context.default_signature

        return signature


def _is_shape(kind: ProperType) -> bool:
    if isinstance(kind, UnionType):
        return any(_is_shape(get_proper_type(item)) for item in kind.items)
    if isinstance(kind, TypeVarType):
        return _is_shape(get_proper_type(kind.upper_bound))
    return isinstance(kind, Instance) and kind.type.has_base(_SHAPE)


def plugin(_version: str) -> type[Plugin]:
    """What mypy calls."""
    return _Shapes
