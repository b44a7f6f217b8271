"""The comparison in words, for the command line, the run's screen and the report. Pure.

Texts of agents stay untrusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from selftest_core.run.plan.estimates import dollars, span

if TYPE_CHECKING:
    from selftest_core.compare.comparison import ComparedTest, Comparison, TestThen


class Section(NamedTuple):
    """One list of a comparison. `words`: how its tests differ, one for each test; `says`: the evidence, or empty."""

    field: str
    title: str
    tests: tuple[ComparedTest, ...]
    words: tuple[str, ...]
    says: tuple[str, ...]


TITLES = {
    "newly_red": "newly red",
    "newly_flaky": "newly flaky",
    "no_result": "without a result now",
    "mended": "mended",
    "slower": "slower",
    "dearer": "dearer",
    "new": "new",
    "gone": "gone",
    "only_after": "only in the later run",
    "only_before": "only in the earlier run",
}
"""The lists that are shown, the most urgent first."""


def sections(found: Comparison) -> tuple[Section, ...]:
    """Return the lists of a comparison that have tests."""
    made = []
    for field, title in TITLES.items():
        tests: tuple[ComparedTest, ...] = getattr(found, field)
        words = tuple(_words(field, one) for one in tests)
        says = tuple(_says(one.after) if field in ("newly_red", "newly_flaky", "no_result") else "" for one in tests)
        if tests:
            made.append(Section(field, title, tests, words, says))
    return tuple(made)


def counts(found: Comparison) -> str:
    """Return the comparison in one line, as `2 newly red, 1 mended, 90 with the same result`."""
    said = [f"{len(one.tests)} {one.title}" for one in sections(found)]
    said.append(f"{found.same} with the same result")
    if found.pending:
        said.append(f"{found.pending} not ended yet")
    return ", ".join(said)


def _words(field: str, one: ComparedTest) -> str:
    before, after = one.before, one.after
    if before is None or after is None:
        there = after or before
        return "not ended" if there is None else there.end.label
    if field == "slower" and before.seconds is not None and after.seconds is not None:
        return f"{span(before.seconds)} → {span(after.seconds)}"
    if field == "dearer" and before.usage is not None and after.usage is not None:
        if before.usage.usd is not None and after.usage.usd is not None:
            return f"{dollars(before.usage.usd)} → {dollars(after.usage.usd)}"
        return f"{before.usage.tokens:,} → {after.usage.tokens:,} tokens"
    return f"{_label(before)} → {_label(after)}"


def _label(one: TestThen) -> str:
    return "flaky" if one.result.value == "flaky" else one.end.label


def _says(one: TestThen | None) -> str:
    """Return the last line of the evidence, where a failure says what it is."""
    lines = [line for line in ("" if one is None else one.says).splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
