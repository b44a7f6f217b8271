"""The clusters that a person sees: who is in each, since when and where, and who can still be told something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.run.rehearsals import a_plan
from selftest_core.journal import Entry
from selftest_core.run.answer.answering import asking_alike
from selftest_core.run.cluster_view import ClusterKind, cluster_rows, message_targets, unreachable_reason
from selftest_core.run.events import Event
from selftest_core.run.fold import fold

if TYPE_CHECKING:
    from selftest_core.run.fold import Run

PLAN = a_plan(7)
NAMES = [test.agent_name for test in PLAN.tests]
ASKED = {"reason": "it asks something that only a person can answer"}


def run_of(*lines: tuple[Event, dict[str, Any]]) -> Run:
    """A run after these lines, written ten seconds apart; a line that names no attempt is of the first."""
    made = [
        Entry(number, 10.0 * number, str(event), {"attempt": 1, **fields} if "agent" in fields else fields)
        for number, (event, fields) in enumerate(lines, 1)
    ]
    return fold(PLAN, made)


def there(name: str, host: str) -> list[tuple[Event, dict[str, Any]]]:
    return [(Event.LAUNCHING, {"agent": name}), (Event.LAUNCHED, {"agent": name, "host_id": host, "provider": "boxes"})]


def ended(name: str, end: str, stage: str, text: str) -> tuple[Event, dict[str, Any]]:
    return Event.ENDED, {"agent": name, "end": end, "stage": stage, "text": text}


def a_busy_run(*more: tuple[Event, dict[str, Any]]) -> Run:
    hosts = ("h1", "h1", "h2", "h2", "h3", "h3")
    begun = [line for name, host in zip(NAMES, hosts, strict=False) for line in there(name, host)]
    return run_of(
        *begun,
        ended(NAMES[2], "crash", "collection", "refused by 127.0.0.1:4711"),
        ended(NAMES[0], "timeout", "collection", "refused by 127.0.0.1:4712\n"),
        ended(NAMES[1], "blocked", "blocked", "Needs a token"),
        (Event.NOTICED, {"agent": NAMES[3], **ASKED}),
        (Event.LIMITED, {"agent": NAMES[4], "reason": "HTTP 429"}),
        *more,
    )


def test_failures_blocks_and_those_who_wait_are_clusters_with_their_places_and_times() -> None:
    asking, failed, blocked, limited = cluster_rows(a_busy_run())
    assert [one.kind for one in (asking, failed, blocked, limited)] == [
        ClusterKind.ASKING, ClusterKind.FAILED, ClusterKind.BLOCKED, ClusterKind.LIMITED,
    ]  # fmt: skip
    assert (failed.stage, failed.signature) == ("collection", "refused by <address>")
    assert [row.name for row in failed.members] == [NAMES[2], NAMES[0]]
    assert failed.node_ids == (PLAN.tests[2].node_id, PLAN.tests[0].node_id)
    assert (failed.first_at, failed.last_at) == (130.0, 140.0)
    assert failed.hosts == ("boxes h2", "boxes h1")
    assert failed.evidence == "refused by 127.0.0.1:4712\n"
    assert (blocked.stage, blocked.signature, blocked.first_at) == ("blocked", "Needs a token", 150.0)
    assert (asking.evidence, asking.first_at) == (ASKED["reason"], 160.0)
    assert (limited.evidence, limited.last_at) == ("HTTP 429", 170.0)


def test_the_cluster_that_pauses_the_run_comes_first_and_is_marked_when_it_was_waved_through() -> None:
    key = "blocked: Needs a token"
    pause = (Event.PAUSED, {"by": "cluster", "reason": "1 of 3", "signature": key})
    first, *others = cluster_rows(a_busy_run(pause))
    assert (first.key, first.is_pausing, first.is_accepted) == (key, True, False)
    assert not any(one.is_pausing for one in others)
    waved = next(one for one in cluster_rows(a_busy_run(pause, (Event.RESUMED, {}))) if one.key == key)
    assert (waved.is_pausing, waved.is_accepted) == (False, True)


def test_dialogs_are_alike_only_where_they_ask_the_same_word_by_word() -> None:
    def asks(name: str, reason: str, kind: str) -> tuple[Event, dict[str, object]]:
        return Event.NOTICED, {"agent": name, "reason": reason, "kind": kind}

    first, second, third = NAMES[3:6]
    for kind, sizes in (("permission", [1, 2]), ("turn ended", [3])):
        run = a_busy_run(
            asks(first, "asks for permission: rm -r 3", kind), asks(second, "asks for permission: rm -r 4", kind),
            asks(third, "asks for permission: rm -r 3", kind),
        )  # fmt: skip
        asking = [one for one in cluster_rows(run) if one.kind is ClusterKind.ASKING]
        assert sorted(len(one.members) for one in asking) == sizes
        alike = [row.name for row in asking_alike(run, run.rows[first])]
        assert alike == ([first, third] if kind == "permission" else [first, second, third])


def test_what_a_person_need_not_know_any_more_is_in_no_cluster() -> None:
    over = a_busy_run(
        (Event.NOTICED, {"agent": NAMES[3], "reason": ""}),
        (Event.LIMITED, {"agent": NAMES[4], "reason": ""}),
        ended(NAMES[5], "succeeded", "work", "Fixed."),
    )
    assert [one.kind for one in cluster_rows(over)] == [ClusterKind.FAILED, ClusterKind.BLOCKED]
    again = a_busy_run(ended(NAMES[3], "timeout", "work", "$ "), ended(NAMES[4], "succeeded", "work", ""))
    assert sum(len(one.members) for one in cluster_rows(again)) == 4


def test_only_agents_that_are_there_are_told_anything_and_by_the_address_that_can_mean_no_other() -> None:
    run = a_busy_run()
    rows = list(run.rows.values())
    (target,) = message_targets([rows[0], rows[3], rows[6]])
    assert target.address == f"{PLAN.tests[3].agent_id}@h2.boxes"
    assert [unreachable_reason(rows[n]) for n in (0, 3, 6)] == ["its agent has ended", "", "it has no agent yet"]
    made = run_of((Event.LAUNCHING, {"agent": NAMES[0]}))
    assert unreachable_reason(made.rows[NAMES[0]]) == "its agent is being launched"


def test_a_journal_without_signatures_gives_the_same_clusters() -> None:
    told = run_of(*there(NAMES[0], "h"), ended(NAMES[0], "red", "test", "x\nE   ValueError: 17\n"))
    assert [one.signature for one in cluster_rows(told)] == ["ValueError: <n>"]
