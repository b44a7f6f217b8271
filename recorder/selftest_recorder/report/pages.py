"""Pages of a report as HTML, from Jinja templates that escape everything.

A page needs no server, no network and no script: scripts add search, sorting, keys and recordings. It keeps a strict
content security policy, so it has no inline script or style. `'self'` matches the files beside a page that was opened
from disk, in Chromium and in Firefox; `'wasm-unsafe-eval'` is for the player of recordings.
"""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from selftest_core.compare.words import TITLES
from selftest_core.conversation.conversation import harmless
from selftest_core.run.plan.plan import NOUNS
from selftest_recorder.report import formats, markup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from importlib.resources.abc import Traversable

    from jinja2 import Environment

    from selftest_core.git.diffs import FileDiff
    from selftest_core.schema.comparison import ComparedTestItem
    from selftest_core.schema.report import ReportChange, ReportDocument, ReportEscalation, ReportTest
    from selftest_recorder.report.facts import ChangePage, MomentLink, TestPage

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
IDLE_SECONDS = 2
"""Longer pauses of a recording are shortened to this; `assets/report.js` has the same figure."""
MOST_LINES = 10_000
"""Lines of the diff on one page."""
_REASON = 160
"""Characters of a reason in a table."""
_GROUPS = {
    "failed": "failed",
    "blocked": "blocked",
    "stopped": "stopped",
    "not_started": "not started",
    "running": "running",
    "succeeded": "succeeded",
    "unchanged": "unchanged",
}
"""States of tests in the order of the table: what needs a person first."""
_OPEN = ("failed", "blocked", "stopped", "not_started")
_VERDICTS = {"green": "passed", "red": "failed", "flaky": "flaky", "order-dependent": "flaky"}
"""The result of a test for the verdict on its runs."""
_KEYS = {
    "index": (
        ("/", "search the tests"),
        ("j k", "next and previous test"),
        ("enter", "open the test"),
        ("esc", "leave the search, then clear it"),
    ),
    "test": (
        ("j k", "next and previous section"),
        ("n p", "next and previous test"),
        ("r", "open the first recording"),
        ("u", "up to the overview"),
    ),
    "change": (
        ("j k", "next and previous hunk"),
        ("n p", "next and previous change"),
        ("u", "up to the overview"),
    ),
}
_KEYS_EVERYWHERE = (("t", "theme: dark, light, as the system"), ("?", "this list"))


def render_index(report: ReportDocument) -> str:
    """Render the overview."""
    tests = sorted(report.tests, key=lambda test: (not test.attention, list(_GROUPS).index(_state(test))))
    published = {change.published: change for change in report.changes if change.published}
    return _render(
        "index", "", report,
        tests=tests, noun=f"{NOUNS[report.role]}s".capitalize(),
        groups=list(_bars(report)), took=_took(report), escalations=_alike(report.escalations),
        published_as=published.get, rows=rows_of(report.changes), verified=Counter(_verified(test) for test in tests),
        clusters=[one for one in report.clusters if len(one.tests) > 1], blocks=_blocks(report), since=_since(report),
    )  # fmt: skip


def render_test(page: TestPage) -> str:
    """Render the page of one test."""
    report, test = page.report, page.test
    made = set(test.oids)
    changes = [change for change in report.changes if made.intersection(change.sources) or change.source in made]
    cluster = next((one for one in report.clusters if len(one.tests) > 1 and test.test in one.tests), None)
    diffs = {oid: _Diff(list(_files_of(one.files)), one.moments) for oid, one in page.diffs.items()}
    before, after = _around(report.tests, test)
    sections = [
        ("claims", "Claims"),
        *((("outcome", "Outcome"),) if test.summary or test.changes or test.test_runs or test.escalations else ()),
        *((("commits", "Changes"),) if changes else ()),
        *((("block", "Tutorial"),) if test.blocks else ()),
        *((("recordings", "Recordings"),) if test.recordings else ()),
        *((("transcript", "Transcript"),) if page.transcript else ()),
        *((("conversation", "Conversation"),) if page.conversation else ()),
    ]
    return _render(
        "test", "../", report,
        page=page, test=test, changes=changes, cluster=cluster, before=before, after=after, sections=sections,
        idle=IDLE_SECONDS, diffs=diffs,
    )  # fmt: skip


def render_change(page: ChangePage) -> str:
    """Render the page of one change."""
    before, after = _around(page.report.changes, page.change)
    row = next((row for row in rows_of(page.report.changes) if page.change in row.changes), None)
    return _render(
        "change", "../", page.report,
        page=page, change=page.change, row=row, before=before, after=after, files=list(_files_of(page.files)),
        published=list(_files_of(page.published.files)) if page.published else [],
    )  # fmt: skip


@cache
def assets() -> dict[str, bytes]:
    """Return the files that all pages share, by their path in the report."""
    folder = files("selftest_recorder.report").joinpath("assets")
    return {f"assets/{name}": one.read_bytes() for name, one in _walk(folder)}


@cache
def template_digest() -> str:
    """Return a digest of what makes the pages: pages of another version are written anew."""
    made = hashlib.sha256()
    package = files("selftest_recorder.report")
    for name, one in (*_walk(package.joinpath("templates")), *_walk(package)):
        if name.endswith((".html", ".py")):
            made.update(name.encode() + b"\0" + one.read_bytes())
    return made.hexdigest()[:16]


class _Bar(NamedTuple):
    """A part of the bar of states; `start` and `width` are thousandths."""

    group: str
    words: str
    number: int
    start: float
    width: float


class ChangeRow(NamedTuple):
    """Changes that say the same: `chosen` is the one that is applied, and `changes` has it first."""

    chosen: ReportChange
    changes: tuple[ReportChange, ...]
    agents: int


def rows_of(changes: Sequence[ReportChange]) -> list[ChangeRow]:
    """Return the rows of a review in the order of their chosen changes."""
    members: dict[str, list[ReportChange]] = {}
    for change in changes:
        members.setdefault(change.row, []).append(change)
    return [
        ChangeRow(
            change,
            (change, *(one for one in members[change.row] if one is not change)),
            len({agent for one in members[change.row] for agent in one.agents}),
        )
        for change in changes
        if change.chosen
    ]


class _Escalations(NamedTuple):
    """Escalations of several tests with the same kind and title; `first` has the details."""

    first: ReportEscalation
    all: list[ReportEscalation]


class _Since(NamedTuple):
    """A list of the comparison with the run before, such as `newly red`."""

    title: str
    tests: list[ComparedTestItem]


class _Block(NamedTuple):
    """A block of the tutorial, with the tests of this report that cite it and the changes of their agents."""

    text: str
    tests: list[ReportTest]
    changes: list[ReportChange]


class _File(NamedTuple):
    """One file of a diff, with the hunks that are shown and the number of lines that are not."""

    file: FileDiff
    hunks: list[markup.Part]
    left_out: int


class _Diff(NamedTuple):
    """The diff of a change on the page of a test."""

    files: list[_File]
    moments: Mapping[tuple[int, int], MomentLink]


def _blocks(report: ReportDocument) -> list[_Block]:
    """List the cited blocks in the order of the tests."""
    tests: dict[str, list[ReportTest]] = {}
    for test in report.tests:
        for text in test.blocks:
            tests.setdefault(text, []).append(test)
    changes = {oid: change for change in report.changes for oid in (change.source, *change.sources)}
    blocks = []
    for text, citing in tests.items():
        made = {change.source: change for test in citing for oid in test.oids if (change := changes.get(oid))}
        blocks.append(_Block(text, citing, list(made.values())))
    return blocks


def _since(report: ReportDocument) -> list[_Since]:
    """Return the lists of the comparison that have tests."""
    lists = {title: getattr(report.since, field) for field, title in TITLES.items()} if report.since else {}
    return [_Since(title, tests) for title, tests in lists.items() if tests]


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_file():
            yield f"{prefix}{one.name}", one
        elif one.name != "__pycache__":
            yield from _walk(one, f"{prefix}{one.name}/")


def _render(name: str, root: str, report: ReportDocument, **facts: Any) -> str:
    slugs = {test.test: test.slug for test in report.tests}
    changes = {oid: change for change in report.changes for oid in (change.source, *change.sources)}
    return (
        _environment()
        .get_template(f"{name}.html")
        .render(
            report=report, root=root, policy=POLICY, keys=(*_KEYS[name], *_KEYS_EVERYWHERE), slug_of=slugs.get,
            change_of=changes.get, **facts,
        )
    )  # fmt: skip


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("selftest_recorder.report", "templates")
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_safe,
        auto_reload=False,
    )
    made.filters.update(
        answer=formats.answer, clock=formats.clock, count=formats.count, duration=formats.duration, many=formats.many,
        moment=formats.moment, money=formats.money, path=formats.path, shell=shlex.quote, sign=formats.sign,
        size=formats.size, words=formats.words,
        conversation=markup.conversation, markdown=markup.markdown, steps=markup.steps, terminal=markup.terminal,
        transcript=markup.transcript,
        differs=_differs, is_open=_is_open, reason=_reason, verified=_verified,
    )  # fmt: skip
    # All at once: an update of this program while a run goes on must not mix templates with older code.
    for name in loader.list_templates():
        made.get_template(name)
    return made


def _safe(value: object) -> object:
    """Remove escape sequences and invisible characters from each value that a template prints."""
    return harmless(value) if type(value) is str else value


def _files_of(diffs: tuple[FileDiff, ...]) -> Iterator[_File]:
    left = MOST_LINES
    for file in diffs:
        hunks, left_out = markup.parts(file, left)
        left -= sum(len(hunk.rows) for hunk in hunks)
        yield _File(file, hunks, left_out + file.left_out)


def _around[T: (ReportTest, ReportChange)](items: list[T], item: T) -> tuple[T | None, T | None]:
    """Return the neighbours of an item on its list."""
    at = next((number for number, one in enumerate(items) if one.page == item.page), None)
    if at is None:
        return None, None
    return (items[at - 1] if at else None), (items[at + 1] if at + 1 < len(items) else None)


def _alike(escalations: list[ReportEscalation]) -> list[_Escalations]:
    """Join what many agents report alike; the order stays."""
    found: dict[tuple[str, str], _Escalations] = {}
    for one in escalations:
        key = (one.kind, one.title.strip().lower() or one.detail)
        found.setdefault(key, _Escalations(one, [])).all.append(one)
    return list(found.values())


def _state(test: ReportTest) -> str:
    return test.group if test.is_ended else "running"


def _bars(report: ReportDocument) -> Iterator[_Bar]:
    counts = dict.fromkeys(_GROUPS, 0)
    for test in report.tests:
        counts[_state(test)] += 1
    start = 0.0
    for group, count in counts.items():
        if count:
            width = 1000 * count / len(report.tests)
            yield _Bar(group, _GROUPS[group], count, round(start, 2), round(width, 2))
            start += width


def _took(report: ReportDocument) -> float | None:
    from datetime import datetime

    if report.started_at is None or report.ended_at is None:
        return None
    began, ended = datetime.fromisoformat(report.started_at), datetime.fromisoformat(report.ended_at)
    return max((ended - began).total_seconds(), 0.0)


def _verified(one: ReportTest | ReportChange) -> str:
    """Return the result of our own run: that of the claim when it arrived, else that of the review's verification."""
    verdict = getattr(one, "verdict", None)
    if one.verified != "unknown" or verdict is None:
        return one.verified
    return _VERDICTS.get(verdict.after, "unknown")


def _differs(one: ReportTest | ReportChange) -> bool:
    return one.claimed is not None and _verified(one) not in ("unknown", one.claimed)


def _is_open(test: ReportTest) -> bool:
    return bool(test.attention) or not test.is_ended or test.group in _OPEN


def _reason(test: ReportTest) -> str:
    text = test.attention or test.says or (test.verified_reason if _differs(test) else "") or test.summary
    line = next((line for line in harmless(text).splitlines() if line.strip()), "").strip()
    return line if len(line) <= _REASON else f"{line[: _REASON - 1]}…"
