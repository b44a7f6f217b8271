"""A run of 96 agents on a real repository, each with a commit and an outcome: for pictures of a review and a report.

Most mend the module of their test. Some lie, some break what others use, some weaken their test, one pair is in
conflict, and some find nothing to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import run_scenes
from core.review.repositories import Repository
from fleet_parts import TOPICS, agent_id
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest

if TYPE_CHECKING:
    from pathlib import Path

    from run_scenes import Story

TESTS = 96
LIARS, CULPRITS, WEAKER, UNCHANGED = (
    frozenset({7, 29, 61}),
    frozenset({18, 44}),
    frozenset({12, 53}),
    frozenset({33, 70, 71}),
)
BLOCKED = frozenset({25, 80})


def make_large_run(folder: Path) -> Story:
    """Write the repository and the run."""
    names = _names()
    made = Repository.make(folder)
    files: dict[str, str | bytes | None] = {"shop/__init__.py": "", "shop/rates.py": _rates()}
    tests: dict[str, list[str]] = {}
    for topic, case in names:
        files[f"shop/{topic}_{case}.py"] = _module(topic, case, "None")
        tests.setdefault(topic, []).append(case)
    for topic, cases in tests.items():
        files[f"tests/test_{topic}.py"] = "".join(_test(topic, case, "assert answer() == 19") for case in cases)
    base = made.commit("Start", files)
    (folder / ".selftest").mkdir()
    (folder / ".selftest" / ".gitignore").write_text("*\n")
    planned = tuple(
        PlannedTest(
            f"tests/test_{topic}.py::test_{case}", f"st-7f-{topic}-{case.replace('_', '-')}",
            agent_id(number + 1), (f"shop {topic} {case.replace('_', ' ')}",),
        )
        for number, (topic, case) in enumerate(names)
    )  # fmt: skip
    story = run_scenes.story(folder / ".selftest" / "runs", TESTS, repository=str(folder), base=base, tests=planned)
    story.note(Event.CONDUCTING, 0, pid=4321)
    for number in range(TESTS):
        story.launch(number, 2.0 * number)
    for number, (topic, case) in enumerate(names):
        _end(made, story, number, topic, case, files)
    made.git("checkout", "-q", "main")
    story.note(Event.LEFT, 1_200.0, why="done")
    story.write()
    return story


def _end(
    made: Repository, story: Story, number: int, topic: str, case: str, files: dict[str, str | bytes | None]
) -> None:
    at = 320.0 + 8.0 * number
    words = case.replace("_", " ")
    if number in BLOCKED:
        story.fail(number, at, End.BLOCKED, "It needs a key of the bank, which nobody gave me.", "work")
        return
    outcome = {**run_scenes.FIXED, "importance": {"level": "high" if number % 9 == 0 else "normal", "reason": "carts"}}
    if number in UNCHANGED:
        outcome = {"changes": {}, "tests_passing_before": True, "tests_passing_after": True}
        story.end(number, at, End.UNCHANGED, "It passes as it is.", outcome=outcome)
        return
    changed: dict[str, str | bytes | None] = {f"shop/{topic}_{case}.py": _module(topic, case, f"rates.{topic.upper()}")}
    subject = f"[FIX_IMPL] Give {topic} {words} the rate of the country"
    if number in LIARS:
        changed = {f"shop/{topic}_{case}.py": _module(topic, case, "7  # the reduced rate")}
    elif number in CULPRITS:
        changed["shop/rates.py"] = _rates().replace(f"{topic.upper()} = 19", f"{topic.upper()} = {number}")
    elif number in WEAKER:
        path = f"tests/test_{topic}.py"
        test = str(files[path]).replace(_test(topic, case, "assert answer() == 19"), _test(topic, case, "answer()"))
        changed, subject = {path: test}, f"[FIX_TEST] Let {topic} {words} pass"
    name = story.plan.tests[number].agent_name
    made.git("checkout", "-q", "-B", "work", "main")
    made.commit(subject, changed, name)
    made.git("update-ref", f"refs/selftest/{story.plan.run}/agents/{name}", "work")
    story.end(number, at, End.SUCCEEDED, "Done", commits=1, outcome=outcome)


def _names() -> list[tuple[str, str]]:
    found = []
    for number in range(TESTS):
        topic, cases = TOPICS[number % len(TOPICS)]
        case = cases[(number // len(TOPICS)) % len(cases)].replace("-", "_")
        found.append((topic, case if number < TESTS // 2 else f"{case}_twice"))
    return found


def _rates() -> str:
    return "".join(f"{topic.upper()} = 19\n\n\n\n" for topic, _ in TOPICS)


def _module(topic: str, case: str, answer: str) -> str:
    return (
        f'"""{topic}: {case}."""\n\nfrom shop import rates\n\n\ndef answer():\n    return {answer}\n\n\nRATES = rates\n'
    )


def _test(topic: str, case: str, check: str) -> str:
    return f"def test_{case}():\n    from shop.{topic}_{case} import answer\n\n    {check}\n\n\n"
