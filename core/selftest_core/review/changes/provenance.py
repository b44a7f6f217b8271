"""Provenance of published commits, written as trailers at the end of their messages.

    Selftest-Run: 20261121-0931-7f3a
    Selftest-Agent: st-7f-login-redirect (claude, claude-opus-5-5)
    Selftest-Same-Intent: st-21-login (claude, claude-opus-5-5)
    Selftest-Integrator: st-9c-mend-login
    Selftest-Test: tests/test_login.py::test_redirect
    Selftest-Verified: passed

An agent of Same-Intent said the same in other words, which were not chosen. An integrator is an agent that resolved a
conflict of the commit. Published commits have them, the candidate's have not,
so a decision costs no new message. They depend on the decisions and the verdicts alone: the same ones give the same
commit ids. `Verified` is our own verdict on exactly the published tree, `no` without one; where some of the tests of a
change were not verified, it counts them: `passed (4 of 5 tests)`.

Names come from agents: a value is one line without control characters, and cut. Lines of an agent's own message that
imitate one of these trailers, or that hide the end of the message from git (`---`), are quoted.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.git.patches import shown
from selftest_core.review.changes.messages import NO_MESSAGE, split_trailers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from selftest_core.git.object_store import ObjectStore
    from selftest_core.review.candidate_branch import Line
    from selftest_core.review.changes.collect_changes import Change

MOST_NAMED = 20
"""Agents, and tests, that one commit names; the others are counted."""
LONGEST = 200
"""Characters of a value."""
_WORST_FIRST = ("failed", "flaky", "unknown")
_IMITATION = re.compile(
    rb"^(?=selftest-(?:run|agent|same-intent|integrator|test|verified)[ \t]*:)", re.IGNORECASE | re.MULTILINE
)
_DIVIDER = re.compile(rb"^(?=---(?:[ \t\r\x0b\x0c]|$))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an agent's changes: its type and model, empty where unknown, and the node ids of its tests."""

    agent_type: str = ""
    model: str = ""
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Provenance:
    """Facts for the trailers. `run`: the id of the run, or of the review; `origins` by agent; `verdicts` by change."""

    run: str
    origins: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))
    verdicts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def with_trailers(
    store: ObjectStore,
    line: Line,
    changes: Iterable[Change],
    provenance: Provenance,
    agents: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Line:
    """Write the commits of a stored line again with trailers; their trees, authors and dates stay the same.

    `agents`: by change, all that said the same, where others did in other words.
    """
    by_oid = {change.oid: change for change in changes}
    members: dict[str, list[Change]] = {}
    integrators: dict[str, dict[str, None]] = {}
    for placed in line.items:
        if placed.commit is not None:
            members.setdefault(placed.commit, []).append(by_oid[placed.item.oid])
            names = (answer.agent for answer in placed.answers)
            integrators.setdefault(placed.commit, {}).update((name, None) for name in names if name)
    tip, written = line.base, {}
    for oid, made in members.items():
        commit = store.commit(oid)
        message = add_trailers(commit.message, list(_trailers(made, list(integrators[oid]), provenance, agents)))
        tip = written[oid] = store.write_commit(replace(commit, parents=(tip,), message=message))
    items = tuple(replace(one, commit=written.get(one.commit or "", one.commit)) for one in line.items)
    return replace(line, tip=tip, items=items)


def _trailers(
    changes: Sequence[Change],
    integrators: Sequence[str],
    provenance: Provenance,
    agents_of: Mapping[str, Sequence[str]],
) -> Iterator[tuple[str, str]]:
    made_it = list(dict.fromkeys(agent for change in changes for agent in change.agents))
    agents = list(dict.fromkeys([*made_it, *(agent for one in changes for agent in agents_of.get(one.oid, ()))]))
    yield "Run", provenance.run
    for name, named in (("Agent", made_it), ("Same-Intent", agents[len(made_it) :])):
        for agent in named[:MOST_NAMED]:
            origin = provenance.origins.get(agent, Origin())
            known = [_one_line(part) for part in (origin.agent_type, origin.model) if part]
            yield name, f"{_one_line(agent)} ({', '.join(known)})" if known else agent
        if len(named) > MOST_NAMED:
            yield name, f"and {len(named) - MOST_NAMED} more"
    for name in integrators[:MOST_NAMED]:
        yield "Integrator", name
    tests = list(dict.fromkeys(test for agent in agents for test in provenance.origins.get(agent, Origin()).tests))
    for test in tests[:MOST_NAMED]:
        yield "Test", test
    if len(tests) > MOST_NAMED:
        yield "Test", f"and {len(tests) - MOST_NAMED} more"
    verdicts = sorted({provenance.verdicts.get(change.oid, "no") for change in changes})
    worst = (one for word in (*_WORST_FIRST, "no", "passed (") for one in verdicts if one.startswith(word))
    yield "Verified", next(worst, "passed")


def add_trailers(message: bytes, trailers: Sequence[tuple[str, str]]) -> bytes:
    """Append trailers to a message: to its own block of trailers if it ends with one, else as a new paragraph."""
    # A carriage return begins a line too, wherever the message is shown.
    lines = re.sub(rb"\r(?!\n)", b"\n", message.replace(b"\0", b" "))
    own = _DIVIDER.sub(b" ", _IMITATION.sub(b"> ", lines)).rstrip()
    added = [f"Selftest-{name}: {_one_line(value)}".encode() for name, value in trailers if _one_line(value)]
    gap = b"\n" if split_trailers(own)[1] else b"\n\n"
    return (own or NO_MESSAGE) + gap + b"\n".join(added) + b"\n"


def _one_line(text: str) -> str:
    text = shown(" ".join(text[: 4 * LONGEST].split()))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
