"""`dataclass(frozen=True, slots=True)` whose methods are compiled with the first object of a class.

Nearly every value of this project is such a class. The standard decorator compiles six methods for each, used or not,
which took half of the time to import the core. Here a class gets its slots and fields at once, and its methods, the
standard ones, with its first object. `replace`, `fields`, `asdict`, copies and pickles work as usual.

Not for classes that can be changed, and not for code that runs on hosts without this project. Measured against
msgspec.Struct in docs/decisions/32-our-frozen-dataclasses-stay.md.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
    from typing import Any

    type Method = Callable[..., Any]
else:

    def dataclass(*, frozen: bool, slots: bool) -> Callable[[type], type]:
        """Make a frozen class with slots; type checkers see the standard decorator, hence the arguments."""
        if not (frozen and slots):
            raise TypeError("only for frozen classes with slots")
        return _made


__all__ = ["dataclass"]

_COMPILED = ("__init__", "__repr__", "__eq__", "__hash__")


def _made(written: type) -> type:
    # Frozen is added below: the standard decorator would compile two methods of each class for it.
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(written)
    compiled = [name for name in _COMPILED if name not in vars(written)]

    def compile_methods() -> None:
        """Copy the methods that the standard decorator makes for a class with the same fields."""
        parts = [(one.name, one.type, one) for one in dataclasses.fields(made)]
        after = {name: method for name, method in vars(made).items() if name == "__post_init__"}
        full = dataclasses.make_dataclass(made.__name__, parts, namespace=after, frozen=True)
        for name in compiled:
            setattr(made, name, vars(full)[name])

    for name in compiled:
        setattr(made, name, _first_call(made, name, compile_methods))
    for name, member in (*_FROZEN.items(), ("__signature__", _Signature(made, compile_methods))):
        setattr(made, name, member)
    return made


class _Signature:
    """Signature of the class, also before its first object."""

    def __init__(self, made: type, compile_methods: Callable[[], None]) -> None:
        self._made = made
        self._compile_methods = compile_methods

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        self._compile_methods()
        whole = inspect.signature(vars(self._made)["__init__"])
        return whole.replace(parameters=tuple(whole.parameters.values())[1:])


def _first_call(made: type, name: str, compile_methods: Callable[[], None]) -> Method:
    """Make the placeholder of a method until one of them is called."""

    def first_call(self: object, /, *arguments: object, **named: object) -> object:
        compile_methods()
        method: Method = getattr(made, name)
        return method(self, *arguments, **named)

    return first_call


def _set_nothing(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete_nothing(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[object]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


# As in a standard frozen class with slots; the last two are for copies and pickles.
_FROZEN: dict[str, Method] = {
    "__setattr__": _set_nothing, "__delattr__": _delete_nothing, "__getstate__": _get_state, "__setstate__": _set_state,
}  # fmt: skip
