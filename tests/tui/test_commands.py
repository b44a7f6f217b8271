"""Commands of `:`, aliases and views of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

import scenes
from selftest_core.config import load_config
from selftest_tui.app.named_settings import check_named_settings
from selftest_tui.shared.commands import command_named, completed, problem_of_command, with_aliases
from selftest_tui.shared.dialogs.choose import Choose
from tui.driving import Driven, driven

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.config import Config

SETTINGS = """
[aliases]
mine = "view mine"
q = "only_needing"
broken = "no-such"
[views]
mine = "is:waiting"
cart = "test:cart"
wrong = "is:nonsense"
"""


def settings(folder: Path) -> Config:
    (folder / "selftest-tui.toml").write_text(SETTINGS, encoding="utf-8")
    return load_config(folder, {})


def hint(one: Driven) -> str:
    return str(one.screen.prompt.query_one("#hint", Static).render())


async def test_a_view_is_chosen_by_key_by_name_and_by_alias(tmp_path: Path) -> None:
    async with driven(scenes.few().view, config=settings(tmp_path)) as one:
        await one.press("ctrl+v")
        assert isinstance(one.app.screen, Choose)
        await one.press("j", "enter")
        await one.until(lambda: one.table.arrangement.query == "test:cart", "the second view")

        await one.press("colon", *"view m", "tab", "enter")
        await one.until(lambda: one.table.arrangement.query == "is:waiting", "the first view")
        await one.press("escape")
        assert one.table.arrangement.query == ""

        await one.press("colon", *"mine", "enter")
        await one.until(lambda: one.table.arrangement.query == "is:waiting", "its alias")

        await one.press("colon", *"view wrong", "enter")
        await one.until(lambda: "The view wrong is no filter" in one.toasts, "what is wrong")
        assert one.table.arrangement.query == "is:waiting", "as before"


async def test_what_is_no_command_is_said_while_it_is_typed_and_never_run(tmp_path: Path) -> None:
    async with driven(scenes.few().view, config=settings(tmp_path)) as one:
        await one.press("colon", *"xyz")
        assert hint(one) == "no such command"
        await one.press("enter")
        assert not one.table.has_focus, "the prompt is open"
        await one.press("ctrl+c", "colon", *"broken")
        assert hint(one) == "broken stands for no-such, which is no command of this screen"
        await one.press("escape", "colon", "enter")
        assert not one.screen.prompt.is_open
        assert not one.toasts

        await one.press("colon", *"explain", "enter")
        await one.until(lambda: one.screen.pane.tab == "explain", "a command of a key")
        await one.press("end", "colon", *"stop", "enter")
        await one.until(lambda: "no agent: only attach" in one.toasts, "a refusal, as by its key")


def test_the_doctor_names_aliases_and_views_that_do_nothing(tmp_path: Path) -> None:
    aliases, views = check_named_settings(settings(tmp_path))
    file = tmp_path / "selftest-tui.toml"
    assert (aliases.name, aliases.status, views.name, views.status) == ("aliases", "warning", "views", "warning")
    assert aliases.text == f"{file}:5: aliases.broken: there is no command no-such. docs/keys.md names the actions."
    assert views.text.startswith(f"{file}:9: views.wrong: ")
    assert "nonsense" in views.text
    assert aliases.hint
    assert views.hint

    file.write_text('aliases = { refresh = "destroy", kill = "destory", k = "destroy" }\nkeys.fleet.stop = "d"\n')
    aliases, keys = check_named_settings(load_config(tmp_path, {}))[::-1]
    assert "aliases.refresh: refresh is a command itself" in aliases.text
    assert "aliases.kill: there is no command destory. Did you mean destroy?" in aliases.text
    assert "aliases.k:" not in aliases.text
    assert keys.status == "warning"
    assert keys.text.startswith(f"{file}:2: keys.fleet.stop: d is also the key of ")

    file.write_text('aliases.k = "destroy"\nviews.mine = "is:waiting"\nkeys.fleet.stop = "f9"\n')
    assert [check.status for check in check_named_settings(load_config(tmp_path, {}))] == ["ok"] * 3


def test_names_are_completed_and_found() -> None:
    commands = {"mark": 1, "mark_all": 2, "mark_range": 3, "stop": 4, "view my own": 5}
    assert completed("ma", commands) == "mark"
    assert completed("mark-", commands) == "mark_"
    assert completed("mark_a", commands) == "mark_all"
    assert completed("x", commands) == "x"
    assert command_named("mark", commands) == "mark", "one that others begin with"
    assert command_named(" mark-all ", commands) == "mark_all"
    assert command_named("st", commands) == "stop"
    assert command_named("mark_", commands) is None
    assert command_named("view  my own", commands) == "view my own"
    assert with_aliases(commands, {"m": "mark-all", "stop": "mark", "z": "none"}) == {**commands, "m": 2}
    assert problem_of_command("mark_", commands, {}) == "mark_all  mark_range"
    assert problem_of_command("", commands, {}) == ""
