"""Acts of a person that can be undone and redone, as the logs of reviews and drafts keep them. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Act:
    """One act of a person. `text` describes it for undo and redo."""

    event: str
    fields: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Acts:
    """The acts of a log. The first `done` of `acts` are in effect; the others are undone and can be redone."""

    acts: tuple[Act, ...] = ()
    done: int = 0

    @property
    def undo_text(self) -> str:
        """The act that undo would undo, empty where there is none."""
        return self.acts[self.done - 1].text if self.done else ""

    @property
    def redo_text(self) -> str:
        """The act that redo would redo, empty where there is none."""
        return self.acts[self.done].text if self.done < len(self.acts) else ""

    @property
    def imported(self) -> str:
        """The mark of the decisions file that was imported last, undone or not."""
        return next((str(act.fields.get("mark", "")) for act in reversed(self.acts) if act.event == "imported"), "")

    def undone(self) -> Self:
        """Undo the last act."""
        return replace(self, done=max(0, self.done - 1))

    def redone(self) -> Self:
        """Redo the first act that is undone."""
        return replace(self, done=min(len(self.acts), self.done + 1))

    def with_act(self, act: Act) -> Self:
        """Add an act; those that are undone are dropped."""
        return replace(self, acts=(*self.acts[: self.done], act), done=self.done + 1)


def act_of(event: str, fields: Mapping[str, Any]) -> Act:
    """Make an act from a line of a log; `says` describes it."""
    return Act(event, fields, str(fields.get("says") or event))
