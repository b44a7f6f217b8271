"""The dialogs of acts: exact targets, a safe default, live results, nothing written ever lost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from textual.app import App
from textual.content import Content
from textual.widgets import Button, Checkbox, Static

from selftest_core.actions.agent_actions import ActResult, Target
from selftest_core.agents import AgentKey
from selftest_tui.shared.dialogs.composer import Composed, Composer, PromptArea
from selftest_tui.shared.dialogs.dialogs import Question, Results, target_lines
from tui.quiet import press, quiet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.screen import ModalScreen

HOSTILE = "evil[bold]\x1b[31m[/][@click=app.exit()]x[/]"


class Host(App[None]):
    """Shows one dialog and keeps its answer."""

    def __init__(self, dialog: ModalScreen[Any]) -> None:
        super().__init__()
        self.dialog = dialog
        self.answer: Any = "open"

    def on_mount(self) -> None:
        self.push_screen(self.dialog, self._answered)

    def _answered(self, answer: Any) -> None:
        self.answer = answer


@asynccontextmanager
async def showing(dialog: ModalScreen[Any], size: tuple[int, int] = (80, 24)) -> AsyncIterator[Host]:
    """The app, once its dialog is there and has the focus."""
    app = Host(dialog)
    async with app.run_test(size=size):
        await quiet(app)
        yield app


def target(number: int, name: str = "") -> Target:
    return Target(AgentKey("host-1", f"agent-{number}"), f"agent-{number}@host-1.local", name or f"a{number}", "local")


def text_of(dialog: ModalScreen[Any], selector: str) -> str:
    return "\n".join(str(shown.render()) for shown in dialog.query(selector).results(Static))


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["enter"], False),
        (["escape"], None),
        (["n"], False),
        (["y"], True),
        (["left", "enter"], True),
        (["tab", "enter"], True),
        (["left", "right", "enter"], False),
    ],
)
async def test_a_question_is_no_unless_one_says_yes(keys: list[str], answer: bool | None) -> None:
    async with showing(Question("Destroy?", "It is gone for good.", ["one"])) as app:
        await press(app, *keys)
        assert app.answer is answer


@pytest.mark.parametrize(("keys", "answer"), [(["enter"], True), (["escape"], None), (["n"], False)])
async def test_a_harmless_question_may_default_to_yes(keys: list[str], answer: bool | None) -> None:
    async with showing(Question("Make them ask?", is_yes_default=True)) as app:
        await press(app, *keys)
        assert app.answer is answer


@pytest.mark.parametrize("size", [(80, 24), (50, 16)])
async def test_every_one_of_many_targets_can_be_read(size: tuple[int, int]) -> None:
    lines = target_lines([target(number) for number in range(60)], "/default")
    dialog = Question("Destroy 60?", "", lines)
    async with showing(dialog, size) as app:
        assert "a59  agent-59  local" in text_of(dialog, "#lines Static")
        box = dialog.query_one("#lines")
        assert box.max_scroll_y > 0
        for _ in range(70):
            await press(app, "j")
        assert box.scroll_y == box.max_scroll_y
        assert dialog.query_one("#no", Button).region.bottom <= size[1]
        assert app.answer == "open"


def test_a_target_is_named_exactly() -> None:
    remote = Target(AgentKey("host-2", "agent-2"), "agent-2@host-2.modal", "far-away", "modal", None)
    elsewhere = Target(AgentKey("host-1", "agent-3"), "agent-3@host-1.local", "x", "local", "/tmp/other")
    assert target_lines([target(1), remote, elsewhere], "/default") == [
        "a1        agent-1  local",
        "far-away  agent-2@host-2.modal",
        "x         agent-3  local  tmux /tmp/other",
    ]


async def test_names_are_shown_and_never_obeyed() -> None:
    dialog = Question(HOSTILE, HOSTILE, target_lines([target(1, HOSTILE)], "/default"))
    async with showing(dialog):
        shown = text_of(dialog, "Static")
        assert "evil[bold][/][@click=app.exit()]x[/]" in shown
        assert "\x1b" not in shown
        assert "evil[bold][/]" in Content.from_markup(str(dialog.query_one("#dialog").border_title)).plain


async def test_results_come_one_by_one_and_only_the_failed_are_tried_again() -> None:
    dialog = Results("stop 3", [target(1), target(2), target(3, HOSTILE)])
    async with showing(dialog) as app:
        assert "0 done, 0 failed, 3 to go" in text_of(dialog, "#says")
        dialog.report(ActResult(target(1), True, "stopped"))
        dialog.report(ActResult(target(3, HOSTILE), False, "no [b]such", "Look [i]again."))
        assert "1 done, 1 failed, 1 to go" in text_of(dialog, "#says")
        await press(app, "r")
        assert app.answer == "open", "there is nothing to retry before all have answered"
        dialog.report(ActResult(target(2), False, "hm"))
        dialog.report(ActResult(target(2), True, "stopped"))
        dialog.finish()
        shown = text_of(dialog, "#results")
        assert shown.splitlines()[0] == "✓ a1  stopped"
        assert "✗ evil[bold][/][@click=app.exit()]x[/]  no [b]such\n    Look [i]again." in shown
        await press(app, "r")
        assert app.answer == (target(3, HOSTILE),)


async def test_results_without_a_failure_offer_no_retry_and_closing_early_is_fine() -> None:
    dialog = Results("stop 2", [target(1), target(2)])
    async with showing(dialog) as app:
        dialog.report(ActResult(target(1), True, "stopped"))
        assert dialog.query_one("#retry", Button).disabled
        await press(app, "escape")
        assert app.answer == ()
        dialog.report(ActResult(target(2), False, "late"))
        dialog.finish()
        assert dialog.failed == (target(2),)


async def test_enter_sends_and_a_new_line_is_a_key_away() -> None:
    async with showing(Composer("Message 1", ["a1   agent-1@host-1.local"])) as app:
        await press(app, "h", "i", "ctrl+j", "[", "b", "]", "enter")
        assert app.answer == Composed("hi\n[b]", is_sent=True)


async def test_a_text_that_was_left_is_kept() -> None:
    async with showing(Composer("Message 1", ["a1"], text="before ")) as app:
        await press(app, "n", "o", "w", "escape")
        assert app.answer == Composed("before now", is_sent=False)


async def test_nothing_is_not_sent() -> None:
    async with showing(Composer("Message 1", ["a1"])) as app:
        await press(app, "space", "enter")
        assert app.answer == "open"


async def test_whether_enter_follows_is_asked_where_it_matters() -> None:
    dialog = Composer("Type into 2", ["a1", "a2"], asks_enter=True)
    async with showing(dialog) as app:
        await press(app, "y", "tab")
        assert dialog.query_one(Checkbox).has_focus
        await press(app, "space", "shift+tab")
        assert dialog.query_one(PromptArea).has_focus
        await press(app, "enter")
        assert app.answer == Composed("y", is_sent=True, with_enter=False)
