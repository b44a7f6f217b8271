"""Two runs of one repository to compare: real run folders, written by the real encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.run.rehearsals import a_plan
from run_scenes import Story
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import folder_of
from selftest_core.usage.tokens import Label, Usage, as_fields

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.store import RunFolder

BEFORE, AFTER = "20261120-0931-7f3a", "20261121-0931-7f3a"
TIMES = {BEFORE: 1_763_600_000.0, AFTER: 1_763_690_000.0}


@dataclass(frozen=True)
class Told:
    """The end of a test. `seconds`: of its agent. `verified`: the verdict on its claim, empty without one."""

    end: End | None
    seconds: float = 300.0
    usage: Usage | None = None
    verified: str = ""
    text: str = ""


GREEN, RED = Told(End.SUCCEEDED), Told(End.RED, text="trace\nE  assert 1 == 2")


@dataclass
class Repository:
    """The repository of the runs, which may not exist. `base`: the commit that runs start from."""

    path: Path
    base: str = "a" * 40
    plan: dict[str, Any] = field(default_factory=dict)

    def run(self, run: str, told: dict[str, Told], **changes: Any) -> RunFolder:
        """Write a run of these tests, by node id."""
        return self.story(run, told, **changes).write()

    def story(self, run: str, told: dict[str, Told], **changes: Any) -> Story:
        """Tell a run of these tests, which has ended."""
        named = [(test, f"agent-{number}") for number, test in enumerate(told)]
        fields = {"repository": str(self.path), "base": self.base, "created_at": TIMES.get(run, 1.0)}
        plan = a_plan(0, named=named, **{"timeout": 3_600.0, **fields, **self.plan, "run": run, **changes})
        story = Story(plan, folder_of(plan))
        story.note(Event.CONDUCTING, 0.0, pid=1)
        for number, one in enumerate(told.values()):
            story.launch(number, 10.0)
            if one.end is None:
                continue
            told_of = {"agent": f"agent-{number}", "attempt": 1}
            if one.usage is not None:
                story.note(Event.METERED, 11.0, **told_of, usage=as_fields(one.usage))
            story.end(number, 12.0 + one.seconds, one.end, one.text)
            if one.verified:
                story.note(Event.VERIFIED, 12.0 + one.seconds, **told_of, result=one.verified, reason="2 of 3 passed")
        story.note(Event.LEFT, 9_000.0, why="done")
        return story


def used(usd: float | None = None, tokens: int = 0, label: Label = Label.METERED) -> Usage:
    """The usage of an agent."""
    return Usage(input=tokens, usd=usd, label=label)
