"""What the keys that act, show and steer the program must do.

Acts are followed up to their dialog, or to the refusal of a tool that is not there; what acts do to agents is tested
with real ones elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.command import CommandPalette
from textual.widgets import OptionList, Static

from selftest_core.agents import State
from selftest_core.fleet.view import Problem
from selftest_tui.fleet.arrangement import Group
from selftest_tui.fleet.columns import COLUMNS
from selftest_tui.fleet.keys import FLEET
from selftest_tui.fleet.pane.preview import Preview
from selftest_tui.search.screen import SearchScreen
from selftest_tui.shared.dialogs.columns import ChooseColumns
from selftest_tui.shared.dialogs.composer import Composer
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.shared.preferences import PreferenceStore
from selftest_tui.tutorial.screen import TutorialScreen
from tui.fleet.keys_of_table import does
from tui.quiet import quiet

if TYPE_CHECKING:
    from tui.driving import Driven


def _tab(one: Driven) -> str:
    return one.screen.pane.tab


def _is_on_top(one: Driven) -> bool:
    return one.app.screen is one.screen


@does("attach")
async def _(one: Driven, key: str) -> None:
    await one.press("home", key)
    assert isinstance(one.table.line, Group)
    assert one.table.line.is_folded
    await one.press("end", key)
    await one.until(lambda: one.toasts, "no tmux can be run here, so attaching fails, and says so")


@does("type")
async def _(one: Driven, key: str) -> None:
    assert one.table.go_to_key(next(row.key for row in one.app.fleet.view.rows if row.session is not None))
    await one.press(key)
    assert "TYPING" in one.key_line
    await one.press("ctrl+right_square_bracket")
    assert not one.screen.is_typing
    assert one.table.has_focus


@does("type_many")
async def _(one: Driven, key: str) -> None:
    await one.press("space", "down", "space", key)
    await one.until(lambda: isinstance(one.app.screen, Composer), "the composer")


def _go_to(one: Driven, name: str) -> None:
    assert one.table.go_to_key(next(row.key for row in one.app.fleet.view.rows if row.agent.name == name))


@does("message")
async def _(one: Driven, key: str) -> None:
    _go_to(one, "st-7f-login-redirect")  # no dialog is open there, which would be asked about first
    await one.press(key)
    await one.until(lambda: isinstance(one.app.screen, Composer) or one.toasts, "the composer, or no mngr")


async def _asks(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.app.screen, Question) or "mngr" in one.toasts, "the question, or no mngr")


@does("stop")
async def _(one: Driven, key: str) -> None:
    await _asks(one, key)


@does("destroy")
async def _(one: Driven, key: str) -> None:
    await _asks(one, key)


@does("start")
async def _(one: Driven, key: str) -> None:
    _go_to(one, "st-7f-login-redirect")
    await one.press(key)
    assert "Already running" in one.toasts
    await one.press("slash", *"fuzzy", "enter")
    assert one.table.row is not None
    assert one.table.row.agent.state is State.STOPPED
    await _asks(one, key)


@does("shell")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: one.toasts, "a terminal that cannot be handed over, or a folder that is not there")


@does("copy")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: one.app.clipboard == f"mngr/{one.name}", "the branch on the clipboard")


# the right pane


@does("preview")
async def _(one: Driven, key: str) -> None:
    await one.press("d", key)
    assert _tab(one) == "preview"


@does("details")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert _tab(one) == "details"
    await one.press(key)
    assert _tab(one) == "preview"


@does("explain")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert _tab(one) == "explain"


@does("messages")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert _tab(one) == "messages"


@does("zoom")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.screen.pane.size.width > 130
    assert one.table.has_focus, "keys go on meaning the same"
    await one.press(key)
    assert one.screen.pane.size.width < 70


@does("table_wider")
@does("table_narrower")
async def _(one: Driven, key: str) -> None:
    before = one.table.size.width
    await one.press(key)
    moved = one.table.size.width - before
    assert moved > 0 if key == "right_curly_bracket" else moved < 0
    share = one.app.preferences.now.splits["fleet"]
    assert PreferenceStore(one.screen.environ).now.splits == {"fleet": share}, "it is remembered"


@does("command")
async def _(one: Driven, key: str) -> None:
    await one.press(key, *"only-n", "tab")
    assert one.screen.prompt.text == "only_needing"
    await one.press("enter")
    await one.until(lambda: one.table.arrangement.only_me, "the action has run")
    await one.press(key, *"de")
    assert "destroy  details" in str(one.screen.prompt.query_one("#hint", Static).render())
    await one.press("enter")
    assert one.screen.prompt.is_open, "two actions begin so"
    await one.press("escape")
    assert one.app.screen is one.screen
    assert one.table.has_focus


@does("views")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert "[views]" in one.toasts, "there is none: shown with the settings in test_commands"


@does("choose_columns")
async def _(one: Driven, key: str) -> None:
    assert "host" in one.lines[0]
    await one.press(key)
    assert isinstance(one.app.screen, ChooseColumns)
    place = [column.name for column in COLUMNS.optional()].index("host")
    await one.press(*["down"] * place, "space", "space", "enter")
    assert "host" not in one.lines[0]
    assert PreferenceStore(one.screen.environ).now.columns == {"fleet": {"host": "never"}}
    await one.press(key, "0", "enter")
    assert "host" in one.lines[0]


@does("pan_right")
@does("pan_left")
async def _(one: Driven, key: str) -> None:
    preview = one.screen.query_one(Preview)
    preview.show_text("\x1b[32m" + "ab" * 200)
    await one.until(lambda: "abab" in one.preview, "a wide terminal")
    before = one.preview
    await one.press("shift+right")
    assert preview.left == 20
    if key == "shift+left":
        await one.press(key)
        assert preview.left == 0
        assert one.preview == before


@does("scroll_down")
async def _(one: Driven, key: str) -> None:
    await one.pilot.resize_terminal(80, 15)
    await quiet(one.app)
    await one.press("d", key)
    await one.until(lambda: one.screen.pane.query_one("#details").scroll_offset.y > 0, "details scrolled down")


@does("scroll_up")
async def _(one: Driven, key: str) -> None:
    await one.pilot.resize_terminal(80, 15)
    await quiet(one.app)
    await one.press("d", "J", "J")
    details = one.screen.pane.query_one("#details")
    await one.until(lambda: details.scroll_offset.y > 0, "details scrolled down")
    await one.press(key, key, key)
    await one.until(lambda: details.scroll_offset.y == 0, "details scrolled up")


# while typing


@does("prompt_up")
async def _(one: Driven, key: str) -> None:
    await one.press("slash", *"st", "down", "down")
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before - 1
    assert one.screen.prompt.is_open


@does("prompt_down")
async def _(one: Driven, key: str) -> None:
    await one.press("slash", *"st")
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before + 1
    assert one.screen.prompt.is_open


@does("prompt_history")
async def _(one: Driven, key: str) -> None:
    await one.press("tilde", key)
    assert one.screen.prompt.with_history
    await one.press(key)
    assert not one.screen.prompt.with_history


@does("prompt_cancel")
async def _(one: Driven, key: str) -> None:
    await one.press("slash", *"cart", key)
    assert not one.screen.prompt.is_open
    assert one.table.arranged.shown == 12
    assert one.table.has_focus


# the program


async def _choose(one: Driven, words: str, title: str) -> None:
    """Choose out of Textual's palette, whose hits come when they come."""
    await one.press(*words)
    hits = one.app.screen.query_one(OptionList)

    def highlighted() -> str:
        option = hits.highlighted_option
        return str(option.prompt) if option is not None else ""

    await one.until(lambda: any(title in str(hit.prompt) for hit in hits.options), f"{title} among the hits")
    for _ in range(hits.option_count + 1):
        if title not in highlighted():
            await one.press("down")
    assert title in highlighted()
    await one.press("enter")


@does("key_guard")
async def _(one: Driven, key: str) -> None:
    raise AssertionError("it has no key; test_acting runs it")


@does("refresh")
async def _(one: Driven, key: str) -> None:
    before = one.watch.refreshed
    await one.press(key)
    assert one.watch.refreshed == before + 1


@does("problems")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert "No problem is known" in one.toasts
    await one.show(replace(one.screen.view, problems=(Problem("modal", "modal is down", "why", "mend it"),)))
    await one.press(key)
    assert isinstance(one.app.screen, Page)
    assert one.app.screen.sections[0].heading == "▲ modal is down"
    assert one.app.screen.sections[0].lines == (("what", "why"), ("solution", "mend it"))


@does("theme")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.app.screen, CommandPalette), "the themes")
    await _choose(one, "nord", "nord")
    await one.until(lambda: one.app.theme == "nord", "the chosen theme")


@does("help")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert isinstance(one.app.screen, Page)
    shown = {line for section in one.app.screen.sections for line in section.lines}
    assert {(row.shows, row.help) for row in FLEET.rows} <= shown
    await one.press("q")
    assert _is_on_top(one), "q closes the help first"


@does("palette")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert isinstance(one.app.screen, CommandPalette)
    await _choose(one, "only", "only ◆")
    await one.until(lambda: one.table.arrangement.only_me, "the action chosen by name")


@does("leave")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.app.return_code == 0
    assert not one.app.is_running


@does("interrupt")
async def _(one: Driven, key: str) -> None:
    await one.press("question_mark", key)
    assert _is_on_top(one), "it closes what lies on top first"
    await one.press(key)
    assert not one.app.is_running


@does("no_quit")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.app.is_running
    assert "does nothing here" in one.toasts


@does("run")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: one.toasts, "why no run is shown: there is no git here")
    assert _is_on_top(one)


@does("review")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: one.toasts, "why there is no review: there is no git here")
    assert _is_on_top(one)


@does("replay")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: "has no recording" in one.toasts, "why nothing is played")
    assert _is_on_top(one)


@does("search_all")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.app.screen, SearchScreen), "the search")


@does("tutorial")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.app.screen, TutorialScreen), "the tutorial")
