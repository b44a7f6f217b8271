"""A person is notified once for each occasion, by the bell and by their command, safe against text of agents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.run.rehearsals import POLL, a_rehearsal
from selftest_core.run.conduct.notifier import CommandNotifier, Notification
from selftest_core.run.conduct.policy import ASKS, Policy
from selftest_core.run.events import Event
from simulated.crew import Role

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@dataclass
class Listener:
    """Records the notifications of a rehearsal, and returns `failure` for each."""

    failure: str = ""
    calls: list[Notification] = field(default_factory=list)

    async def notify(self, notification: Notification) -> str:
        self.calls.append(notification)
        return self.failure


def test_a_cluster_calls_once_and_a_command_that_failed_is_written_down(tmp_path: Path) -> None:
    policy = Policy(poll=POLL, leave_when_paused=True)
    rehearsal = a_rehearsal(tmp_path, [Role.CRASHES] * 12, policy=policy, on_cluster="ask", max_running=3)
    rehearsal.notifier = listener = Listener("it ended with 1")
    assert rehearsal.conduct() == "paused"
    (call,) = listener.calls
    assert call.reason == "cluster"
    assert call.text == rehearsal.run.paused
    (line,) = [entry for entry in rehearsal.ledger.entries if entry.event == Event.CALLED]
    assert line.fields == {"reason": "cluster", "says": "it ended with 1"}
    assert rehearsal.conduct() == "paused"
    assert len(listener.calls) == 1  # it rests as before; nothing new happened


def test_a_used_up_budget_calls(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, tests=3, budget_usd=0.5, usd_per_agent=0.5)
    rehearsal.notifier = listener = Listener()
    assert rehearsal.conduct() == "budget"
    assert [call.reason for call in listener.calls] == ["budget"]


def test_many_agents_that_ask_are_one_call(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.ASKS] * 5, max_running=5)
    rehearsal.notifier = listener = Listener()
    assert rehearsal.conduct() == "done"
    (call,) = listener.calls
    assert (call.reason, call.text) == ("person", ASKS)
    assert call.test in {test.node_id for test in rehearsal.plan.tests}


async def test_the_command_gets_its_values_in_its_environment_and_none_of_them_is_obeyed(tmp_path: Path) -> None:
    rings: list[int] = []
    hostile = "$(touch hacked)`touch hacked`'; touch hacked; \"\n\x1b[31mred\0\ud800"
    command = 'printf "%s|" "$SELFTEST_RUN" "$SELFTEST_REASON" "$SELFTEST_SAYS" "$SELFTEST_TEST" "$PWD" > told'
    notifier = CommandNotifier(
        "20261121-0931-7f3a", tmp_path, command, {"PATH": "/usr/bin:/bin"}, lambda: rings.append(1)
    )
    assert await notifier.notify(Notification("cluster", hostile, "tests/t.py::test_a")) == ""
    told = (tmp_path / "told").read_text()
    says = "$(touch hacked)`touch hacked`'; touch hacked; \" [31mred"
    assert told == f"20261121-0931-7f3a|cluster|{says}|tests/t.py::test_a|{tmp_path}|"
    assert {path.name for path in tmp_path.iterdir()} == {"told"}
    assert rings == [1]


async def test_a_command_that_fails_is_told_and_without_one_only_the_bell_rings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"PATH": "/usr/bin:/bin"}
    failing = CommandNotifier("r", tmp_path, "echo no such phone >&2; exit 7", environ)
    assert await failing.notify(Notification("budget", "x")) == "on_pause_command ended with 7: no such phone"
    gone = CommandNotifier("r", tmp_path / "gone", "true", environ)
    assert (await gone.notify(Notification("budget", "x"))).startswith("on_pause_command: ")
    assert await CommandNotifier("r", tmp_path, " ", environ).notify(Notification("budget", "x")) == ""
    assert capsys.readouterr().err == ""  # no terminal, no bell
