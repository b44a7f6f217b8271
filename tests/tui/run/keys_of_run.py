"""What each key of the run's table must do, by the action that it runs: pressed by `test_run_keys`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.command import CommandPalette

from selftest_core.run.events import Event, Phase
from selftest_core.run.outcome.ends import End
from selftest_tui.run.columns import test_name
from selftest_tui.run.keys import RUN
from selftest_tui.run.lines import RunGroup
from selftest_tui.search.screen import SearchScreen
from selftest_tui.shared.dialogs.composer import Composer
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.tutorial.screen import TutorialScreen
from tui.key_checks import KeyChecks

if TYPE_CHECKING:
    from tui.run.run_driving import RunDriven

does: KeyChecks[RunDriven] = KeyChecks()


def a_test(one: RunDriven, phase: Phase, end: End | None = None) -> str:
    """The name of a test that is so, and asks nothing."""
    rows = one.story.run.rows
    return next(name for name, row in rows.items() if (row.phase, row.end) == (phase, end) and not row.attention)


async def answered(one: RunDriven, key: str) -> Question:
    """The question that is on top, answered with a key."""
    await one.until(lambda: isinstance(one.top, Question), "the question")
    question = one.top
    assert isinstance(question, Question)
    await one.press(key)
    return question


@does("down")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert one.table.cursor == 1


@does("up")
async def _(one: RunDriven, key: str) -> None:
    await one.press("j", "j", key)
    assert one.table.cursor == 1


@does("page_down")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert one.table.cursor == one.table.page - 1


@does("page_up")
async def _(one: RunDriven, key: str) -> None:
    await one.press("end", key)
    assert one.table.cursor == len(one.table.shown.lines) - one.table.page


@does("first")
async def _(one: RunDriven, key: str) -> None:
    await one.press("end", key)
    assert one.table.cursor == 0


@does("last")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert one.table.cursor == len(one.table.shown.lines) - 1


@does("close_group", "open_group")
async def _(one: RunDriven, key: str) -> None:
    close, open_ = RUN.row("close_group").keys[0], RUN.row("open_group").keys[0]
    await one.press("down", key if key in RUN.row("close_group").keys else close)
    group = one.table.line
    assert isinstance(group, RunGroup)
    assert group.is_folded
    assert len(one.table.shown.group_of) == 48, "what is folded away is still counted"
    await one.press(key if key in RUN.row("open_group").keys else open_)
    assert isinstance(one.table.line, RunGroup)
    assert not one.table.line.is_folded


@does("next_needing", "previous_needing")
async def _(one: RunDriven, key: str) -> None:
    await one.press("left", "end", key)
    row = one.table.row
    assert row is not None, "its group was opened"
    assert row.attention
    await one.press(key)
    assert one.table.row is not None
    assert one.table.row.attention
    assert one.table.row.name != row.name


@does("filter")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key, *"csv", "enter")
    assert 0 < len(one.table.shown.group_of) < 48
    assert all("csv" in name for name in one.table.shown.group_of)
    await one.press(key, *"nothing is called so", "enter")
    assert any("Nothing matches" in line for line in one.lines)


@does("sort")
async def _(one: RunDriven, key: str) -> None:
    def names() -> list[list[str]]:
        return [[test_name(row) for row in group.members] for group in one.table.shown.groups.values()]

    before = names()
    await one.press(key, "j", "enter")
    assert names() == [sorted(group) for group in before]
    assert "test▲" in one.lines[0]
    await one.press(key, "enter")
    assert names() == [sorted(group, reverse=True) for group in before]
    assert "sort: test, reversed" in str(one.screen.query_one("#tests").border_title)
    await one.press(key, "k", "enter")
    assert names() == before


@does("only_needing")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert all(group.cluster is not None for group in one.table.shown.groups.values())
    await one.press(key)
    assert len(one.table.shown.group_of) == 48


@does("back")
async def _(one: RunDriven, key: str) -> None:
    await one.press("plus", "a", "slash", *"csv", "enter", key)
    assert not one.screen.is_zoomed
    await one.press(key)
    assert not one.screen.query_text
    await one.press(key)
    assert not one.screen.only_open
    await one.press(key)
    assert one.top is one.fleet.screen, "then back to the fleet"


@does("pause")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: one.requests == [("pause", "")], "the request")
    one.story.note(Event.PAUSED, 1_499, reason="as asked", by="person", signature="")
    await one.goes_on()
    await one.press(key)
    await one.until(lambda: one.requests == [("pause", ""), ("go", "")], "the request to go on")


@does("end_run")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    await answered(one, "enter")
    assert one.requests == [], "the default is No"
    await one.press(key)
    await answered(one, "y")
    await one.until(lambda: one.requests == [("stop", "")], "the request")


@does("fleet")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert one.top is one.fleet.screen


@does("review")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: one.toasts, "why there is no review: there is no git here")
    assert one.top is one.screen


@does("replay")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.ENDED, End.SUCCEEDED))
    await one.press(key)
    await one.until(lambda: "has no recording" in one.toasts, "why nothing is played")
    assert one.top is one.screen


@does("report")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    page = one.screen.folder.path / "report" / "index.html"
    await one.until(lambda: str(page) in one.toasts, "where the report is")
    assert one.screen.folder.run in page.read_text(encoding="utf-8")


@does("compare")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: "There is no run before" in one.toasts, "the only run of its repository")


@does("tutorial")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.top, TutorialScreen), "the tutorial")


@does("search_all")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.top, SearchScreen), "the search")


@does("attach")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert isinstance(one.table.line, RunGroup)
    assert one.table.line.is_folded, "a group is folded"
    await one.go_to(a_test(one, Phase.WAITING))
    await one.press(key)
    assert "it has no agent yet" in one.toasts
    await one.go_to(a_test(one, Phase.ENDED, End.SUCCEEDED))
    await one.press(key)
    await one.until(lambda: "tmux" in one.toasts, "there is no tmux here, which attaching says")


@does("type")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.WAITING))
    await one.press(key)
    assert "it has no agent yet" in one.toasts
    agents = [(row, one.screen.agent_of(row)) for row in one.story.run.rows.values() if row.phase is Phase.WORKING]
    away = next(row.name for row, agent in agents if agent is not None and not agent.agent.host.is_local)
    await one.go_to(away)
    await one.press(key)
    assert "out of reach" in one.toasts
    here = next(row.name for row, agent in agents if agent is not None and agent.session is not None)
    await one.go_to(here)
    await one.press(key)
    assert one.screen.is_typing
    await one.press("ctrl+right_square_bracket")
    assert not one.screen.is_typing


@does("message")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.WAITING))
    await one.press(key)
    assert "it has no agent yet" in one.toasts
    # One that has ended goes on with it: a request to the conductor.
    name = a_test(one, Phase.ENDED, End.SUCCEEDED)
    await one.go_to(name)
    await one.press(key)
    await one.until(lambda: isinstance(one.top, Composer), "the answer")
    await one.press(*"why", "enter")
    await one.until(lambda: one.requests == [("answer", name)], "the request")
    ((_, request),) = one.screen.folder.requests()
    assert (request.text, request.attempt) == ("why", 1)
    await one.until(lambda: "goes on" in one.toasts, "what happens")
    # Several are named, and asked about: the default is No.
    blocked = next(group for group in one.table.shown.groups.values() if "blocked" in group.key)
    await one.go_to(f"group {blocked.key}" if not blocked.key.startswith("group ") else blocked.key)
    await one.press(key)
    await one.until(lambda: isinstance(one.top, Composer), "the answer to all")
    assert isinstance(one.top, Composer)
    assert str(one.top.query_one("#dialog").border_title) == f"Answer {len(blocked.members)} agents"
    await one.press(*"yes", "enter")
    await answered(one, "enter")
    assert len(one.requests) == 1
    await one.press("home", key)
    await one.until(lambda: isinstance(one.top, Composer), "the message")
    composer = one.top
    assert isinstance(composer, Composer)
    assert composer.query_one("#dialog").border_title == "Message 2 agents", "to all of the cluster"
    await one.press("escape")
    assert not isinstance(one.top, Composer)


@does("retry")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.WORKING))
    await one.press(key)
    assert "has not ended yet" in one.toasts
    name = a_test(one, Phase.ENDED, End.SUCCEEDED)
    await one.go_to(name)
    await one.press(key)
    await one.until(lambda: one.requests == [("retry", name)], "the request")
    cluster = next(group for group in one.table.shown.groups.values() if len(group.members) > 1 and group.sign == "✗")
    await one.go_to(f"group {cluster.key}")
    await one.press(key)
    question = await answered(one, "y")
    assert question is not None
    wanted = [("retry", name), *(("retry", row.name) for row in cluster.members)]
    await one.until(lambda: one.requests == wanted, "a request for each of the cluster")


@does("skip")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.WORKING))
    await one.press(key)
    assert "s stops it" in one.toasts
    name = a_test(one, Phase.WAITING)
    await one.go_to(name)
    await one.press(key)
    await one.until(lambda: one.requests == [("skip", name)], "the request")


@does("stop")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.WAITING))
    await one.press(key)
    assert "no agent at work" in one.toasts
    name = a_test(one, Phase.WORKING)
    await one.go_to(name)
    await one.press(key)
    await answered(one, "n")
    assert one.requests == []
    await one.press(key)
    await answered(one, "y")
    await one.until(lambda: one.requests == [("stop_one", name)], "the request")


@does("shell")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.WAITING))
    await one.press(key)
    assert "Nothing has come back" in one.toasts
    await one.go_to(a_test(one, Phase.ENDED, End.SUCCEEDED))
    await one.until(lambda: one.screen.pane.collected is not None, "what came back")
    await one.press(key)
    await one.until(lambda: "cannot be handed over" in one.toasts, "there is no terminal here to hand over")


@does("copy")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert "move to a test" in one.toasts
    await one.press("down", key)
    row = one.table.row
    assert row is not None
    assert one.fleet.app.clipboard == row.planned.node_id


@does("outcome", "preview", "details", "artifacts")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.ENDED, End.SUCCEEDED))
    await one.press("p" if key == "1" else "1", key)
    assert one.screen.pane.tab == {
        "1": "outcome", "2": "terminal", "p": "terminal", "3": "details", "d": "details", "4": "artifacts",
    }[key]  # fmt: skip


@does("zoom")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert one.screen.is_zoomed
    await one.press(key)
    assert not one.screen.is_zoomed


@does("table_wider", "table_narrower")
async def _(one: RunDriven, key: str) -> None:
    before = one.table.size.width
    await one.press(key)
    moved = one.table.size.width - before
    assert moved > 0 if key == "right_curly_bracket" else moved < 0


@does("command")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key, *"only", "enter")
    await one.until(lambda: one.screen.only_open, "the action has run")
    await one.press(key, *"only", "enter")
    await one.until(lambda: not one.screen.only_open, "and again")


@does("choose_columns")
async def _(one: RunDriven, key: str) -> None:
    assert "try" in one.lines[0].split()
    await one.press(key, "down", "space", "space", "enter")
    assert "try" not in one.lines[0].split()


@does("pan_right", "pan_left")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.ENDED, End.RED))
    scrolled = one.screen.pane.query_one("#outcome")
    await one.until(lambda: scrolled.max_scroll_x > 0, "output that is wider than the pane")
    await one.press("shift+right")
    assert scrolled.scroll_offset.x == min(20, scrolled.max_scroll_x)
    if key == "shift+left":
        await one.press(key)
        assert scrolled.scroll_offset.x == 0


@does("scroll_down", "scroll_up")
async def _(one: RunDriven, key: str) -> None:
    await one.go_to(a_test(one, Phase.ENDED, End.SUCCEEDED))
    await one.press("1")
    scrolled = one.screen.pane.query_one("#outcome")
    scrolled.scroll_home(animate=False)
    await one.until(lambda: scrolled.max_scroll_y > 0, "a report that is longer than the pane")
    if key in RUN.row("scroll_up").keys:
        await one.press("J", "J")
        before = scrolled.scroll_offset.y
        await one.press(key)
        assert scrolled.scroll_offset.y == max(0, before - 5) < before
    else:
        await one.press(key)
        assert scrolled.scroll_offset.y == min(5, scrolled.max_scroll_y)


@does("prompt_up", "prompt_down")
async def _(one: RunDriven, key: str) -> None:
    await one.press("slash", *"test", "down", "down", key)
    assert one.table.cursor == (3 if key == "down" else 1)
    await one.press("enter")


@does("prompt_cancel")
async def _(one: RunDriven, key: str) -> None:
    await one.press("slash", *"csv", key)
    assert len(one.table.shown.group_of) == 48
    assert one.top is one.screen


@does("problems")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert "nothing was said yet" in one.toasts
    await one.press(key)
    assert isinstance(one.top, Page), "now there is that refusal to read"


@does("theme")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.top, CommandPalette), "the themes")


@does("help")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert isinstance(one.top, Page)
    await one.press("q")
    assert not isinstance(one.top, Page), "q closes the help first"


@does("palette")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert isinstance(one.top, CommandPalette)


@does("leave", "interrupt")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert not one.fleet.app.is_running
    assert one.fleet.app.return_code == 0
    assert one.requests == [], "the run goes on"


@does("no_quit")
async def _(one: RunDriven, key: str) -> None:
    await one.press(key)
    assert one.fleet.app.is_running
    assert "does nothing here" in one.toasts
