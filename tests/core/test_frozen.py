"""Frozen values: what the standard decorator promises holds for classes whose methods are compiled late."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field
from typing import TYPE_CHECKING

import pytest

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Late:
    """Every kind of field that the project uses."""

    name: str
    size: int = 3
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)
    hidden: tuple[str, ...] = field(default=(), repr=False)

    @property
    def words(self) -> str:
        """Something of its own."""
        return f"{self.name} {self.size}"


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """The same by the standard decorator."""

    name: str
    size: int = 3
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)
    hidden: tuple[str, ...] = field(default=(), repr=False)


def fresh() -> type[Late]:
    """A class of which nothing was called yet."""

    @dataclass(frozen=True, slots=True)
    class Fresh:
        """Two fields."""

        name: str
        size: int = 3

    return Fresh  # type: ignore[return-value]  # the fields that are used here are the same


def test_it_is_the_standard_class_but_for_the_time_of_its_making() -> None:
    late, standard = Late("a", 4, {"k": "v"}, ("h",)), Standard("a", 4, {"k": "v"}, ("h",))
    assert dataclasses.asdict(late) == dataclasses.asdict(standard)
    assert repr(late) == repr(standard).replace("Standard", "Late") == "Late(name='a', size=4, notes={'k': 'v'})"
    assert hash(late) == hash(standard)
    assert late == Late("a", 4, {}, ("h",))
    assert late != Late("a", 4)
    assert late.__eq__(standard) is NotImplemented
    assert Late("a") == Late(name="a", size=3)
    assert Late("a").notes is not Late("a").notes
    assert dataclasses.replace(late, size=5).words == "a 5"
    assert [one.name for one in dataclasses.fields(Late)] == [one.name for one in dataclasses.fields(Standard)]
    assert Late.__match_args__ == ("name", "size", "notes", "hidden")


def test_nothing_can_be_changed_or_added() -> None:
    late = Late("a")
    for name in ("name", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(late, name, "b")
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(late, name)
    assert not hasattr(late, "__dict__")
    assert late.name == "a"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda late: pickle.loads(pickle.dumps(late))])
def test_copies_are_equal(again: Callable[[Late], Late]) -> None:
    late = Late("a", 4, {"k": "v"}, ("h",))
    made = again(late)
    assert made is not late
    assert (made, made.notes, made.hidden) == (late, {"k": "v"}, ("h",))


@pytest.mark.parametrize("method", [repr, hash, lambda made: made == made])
def test_any_method_may_be_the_first(method: Callable[[Late], object]) -> None:
    made = fresh()
    unpickled = made.__new__(made)
    object.__setattr__(unpickled, "name", "a")
    object.__setattr__(unpickled, "size", 4)
    assert method(unpickled) == method(made("a", 4))


def test_wrong_arguments_are_told_as_ever() -> None:
    made = fresh()
    for _ in range(2):
        with pytest.raises(TypeError, match=r"Fresh\.__init__\(\) missing 1 required positional argument: 'name'"):
            made()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        made("a", colour="red")  # type: ignore[call-arg]
    assert made("a", size=1).size == 1


def test_its_signature_is_that_of_its_fields_before_and_after_the_first_object() -> None:
    made = fresh()
    before = inspect.signature(made)
    assert str(before) == "(name: 'str', size: 'int' = 3) -> None"
    assert made("a").size == 3
    assert inspect.signature(made) == before


def test_what_a_class_wrote_itself_stays() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        """It says how it looks."""

        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

    assert repr(Own("a")) == "<a>"
    assert Own("a") == Own("a")
