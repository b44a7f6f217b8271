"""All key tables together: a key has one meaning on all screens, and harmless keys stay harmless."""

from __future__ import annotations

from collections import defaultdict

import pytest

from selftest_tui.app.key_tables import TABLES, all_keys, most_used_keys
from selftest_tui.run.keys import START
from selftest_tui.shared.keys import APP, SPLIT, Key, KeyTable, Where

QUESTION = "START is a question: y is yes, n is no, and the rest scrolls"
PLAYER = "the player has the keys of players; they move in time and in the terminal"
EXCEPTIONS = {
    "enter": "opens what is under the cursor, which for an agent means to attach",
    "space": "marks in the fleet; plays in the player",
    "slash": "finds: filters a list, searches a recording",
    "A": "starts an agent: for a test that ended, for a conflict",
    "C": "compares a run with the one before; in the review, the sides of a conflict",
    "a": "only what needs a person; in the player, without idle stretches",
    "y": "yes: begin a run, keep a change",
    **dict.fromkeys(("n", "N", "Y", "j", "k", "down", "up", "escape"), QUESTION),
    **dict.fromkeys(("left", "right", "shift+left", "shift+right", "h", "l", "pageup", "pagedown"), PLAYER),
    **dict.fromkeys(("comma", "full_stop", "less_than_sign", "greater_than_sign", "equals_sign"), PLAYER),
    **dict.fromkeys(("left_square_bracket", "right_square_bracket"), PLAYER),
    "v": "opens the review; in the review, verifies it",
    **dict.fromkeys("123456", "choose a tab; in the player, a tenth of the recording"),
}
"""Keys with several meanings, and the reason."""
CHANGES = {
    "stop", "start", "destroy", "type", "type_many", "message", "shell", "pause", "end_run", "retry", "skip", "begin",
    "keep", "revert", "undecide", "keep_many", "revert_many", "undecide_many", "pick", "note", "undo", "redo",
    "move_down", "move_up", "edit", "integrate", "rebase", "publish", "split", "squash", "unsquash", "reword", "apart",
}  # fmt: skip
"""Actions that change agents, a run, a review or files."""


def actions_by_key() -> dict[str, set[str]]:
    """The actions that each key runs, over all screens; prompts apart, where keys are text."""
    found: dict[str, set[str]] = defaultdict(set)
    for table in TABLES:
        for key in table.rows:
            if key.where not in (Where.PROMPT, Where.TYPING):
                for name in key.keys:
                    found[name].add(key.action)
    return found


def test_a_key_has_one_meaning_on_all_screens() -> None:
    several = {name: actions for name, actions in actions_by_key().items() if len(actions) > 1}
    assert set(several) == set(EXCEPTIONS), {name: several.get(name) for name in set(several) ^ set(EXCEPTIONS)}


def test_what_changes_something_never_shares_a_key_with_what_does_not() -> None:
    known = {key.action for table in TABLES for key in table.rows}
    assert known >= CHANGES, CHANGES - known
    for name, actions in actions_by_key().items():
        assert not actions & CHANGES or actions <= CHANGES, name


def test_an_action_has_the_same_keys_on_all_screens() -> None:
    keys: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for table in TABLES:
        if table is not START:
            for key in table.rows:
                keys[key.action].add(key.keys)
    differing = {action for action, found in keys.items() if len(found) > 1}
    # Preview and details are tabs: their digits are places. The player has page keys and pans of its own.
    assert differing == {"preview", "details", "pan_right", "pan_left"}


@pytest.mark.parametrize("table", TABLES, ids=[table.screen for table in TABLES])
def test_shared_rows_are_the_same_everywhere(table: KeyTable) -> None:
    assert set(APP) <= set(table.shared)
    shared: set[Key] = {*SPLIT, *APP}
    assert not shared & set(table.own)


def test_the_readme_has_ten_keys_of_a_screen_and_the_document_has_all_once() -> None:
    assert all(row.count("`") <= 20 for row in most_used_keys().splitlines())
    document = all_keys()
    assert document.count("| `PgDn ^f` |") == 1
    assert document.count("| `q` |") == 1
