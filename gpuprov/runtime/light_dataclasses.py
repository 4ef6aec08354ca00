"""In place of `dataclasses` where a container waits: that takes longer to load, and to make classes, than all else.

It knows the one form that gpuprov uses, `dataclass(frozen=True, kw_only=True)`, and makes the same of it. Only what
`dataclass` refuses, such as a change of a frozen value, is not refused here: tests and mypy find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")
_FIELDS = "__dataclass_fields__"


class Field:
    """What a class says of a field; `default` is itself where there is none."""

    def __init__(self, default: object, default_factory: Callable[[], object] | None, *, compare: bool) -> None:
        self.default = self if default is _NONE else default
        self.default_factory = default_factory
        self.compare = compare


_NONE = object()


def field(*, default: object = _NONE, default_factory: Callable[[], object] | None = None, compare: bool = True) -> Any:  # noqa: ANN401 - as the standard library's
    """A field with more than a default."""
    return Field(default, default_factory, compare=compare)


def dataclass(*, frozen: bool, kw_only: bool) -> Callable[[type[Value]], type[Value]]:
    """Give a class fields, and the methods that go with them; its own are kept."""
    if not (frozen and kw_only):
        raise TypeError("the only form is dataclass(frozen=True, kw_only=True)")

    def decorate(cls: type[Value]) -> type[Value]:
        found: dict[str, Field] = {}
        for base in reversed(cls.__mro__[1:]):
            found |= getattr(base, _FIELDS, {})
        for name in cls.__annotations__:
            said = cls.__dict__.get(name, _NONE)
            one = said if isinstance(said, Field) else Field(said, None, compare=True)
            if one.default is not one:
                setattr(cls, name, one.default)
            elif said is not _NONE:
                delattr(cls, name)
            found[name] = one
        setattr(cls, _FIELDS, found)
        for method in (_init, _eq, _hash, _repr):
            name = f"_{method.__name__}__"
            if name == "__init__" or name not in cls.__dict__ or cls.__dict__[name] is None:
                setattr(cls, name, method)
        return cls

    return decorate


def replace(value: Value, /, **changes: object) -> Value:
    """A copy with other values of some fields."""
    return value.__class__(**{**_values(value), **changes})


def asdict(value: object) -> Any:  # noqa: ANN401 - as the standard library's
    """As plain data, with those within it."""
    if hasattr(value, _FIELDS):
        return {name: asdict(one) for name, one in _values(value).items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(asdict, value))
    if isinstance(value, dict):
        return {asdict(name): asdict(one) for name, one in value.items()}
    return value


def _values(value: object, *, compared: bool = False) -> dict[str, object]:
    fields: dict[str, Field] = getattr(value, _FIELDS)
    return {name: getattr(value, name) for name, one in fields.items() if one.compare or not compared}


def _init(self: object, **given: object) -> None:
    held = self.__dict__
    for name, one in getattr(self, _FIELDS).items():
        if name in given:
            held[name] = given.pop(name)
        elif one.default_factory:
            held[name] = one.default_factory()
        elif one.default is not one:
            held[name] = one.default
        else:
            raise TypeError(f"{type(self).__name__} lacks {name}")
    if given:
        raise TypeError(f"{type(self).__name__} has no {', '.join(given)}")


def _eq(self: object, other: object) -> Any:  # noqa: ANN401 - NotImplemented too
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self, compared=True) == _values(other, compared=True)


def _hash(self: object) -> int:
    return hash(tuple(_values(self, compared=True).values()))


def _repr(self: object) -> str:
    said = ", ".join(f"{name}={value!r}" for name, value in _values(self).items())
    return f"{type(self).__qualname__}({said})"
