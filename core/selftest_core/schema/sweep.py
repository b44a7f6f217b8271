"""The JSON of `selftest-tui sweep`, as models. Imported by commands that print JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from selftest_core.schema.registry import Line, Shape, Text


class LeftoverItem(Shape):
    """Something that an earlier process left behind. `kept`: its person asked for it to stay."""

    path: Text = Field(description="The folder that it is or belongs to.")
    kind: Literal["demo", "agents", "session", "clone", "branches", "trust", "refs", "run", "review"]
    run: Text | None = Field(description="The run or review that it is of; null for a demo.")
    says: Text
    names: list[Text] = Field(description="Exactly what goes: agents, branches, refs or sessions.")
    kept: bool
    removed: bool
    problems: list[Text]


class SweepDocument(Shape):
    """`selftest-tui sweep --json`."""

    leftovers: list[LeftoverItem]


class SweepLine(Line, SweepDocument):
    """`selftest-tui sweep --batch`."""

    event: Literal["summary"] = "summary"
