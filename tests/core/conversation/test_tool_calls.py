"""Search of a conversation for the call that made a hunk, and for the words around it."""

from __future__ import annotations

from selftest_core.conversation.common_transcript import Step, ToolCall, ToolResult
from selftest_core.conversation.tool_calls import find_edit, find_test_run, words_around
from selftest_core.git.patches import DiffLine, Hunk, LineKind


def hunk(added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> Hunk:
    lines = [DiffLine(LineKind.CONTEXT, 1, 1, "def total(self):")]
    lines += [DiffLine(LineKind.REMOVED, 2, None, line) for line in removed]
    lines += [DiffLine(LineKind.ADDED, None, 2, line) for line in added]
    return Hunk(1, 1 + len(removed), 1, 1 + len(added), "", tuple(lines))


def said(text: str, at: float, *calls: ToolCall) -> Step:
    return Step(f"s{at}", "agent", at, text, calls)


def result(call: str, at: float, text: str = "", *, is_error: bool = False) -> Step:
    return Step(f"r{call}", "tool", at, results=(ToolResult(call, text, is_error),))


def edit(call: str, path: str, old: str, new: str) -> ToolCall:
    return ToolCall(call, "Edit", {"file_path": path, "old_string": old, "new_string": new})


NEW = "return sum(price * count for price, count in self.items)"
WANTED = hunk((f"        {NEW}",), ("        return 0",))
WORK = "/home/me/worktrees/one"


def test_the_edit_with_the_lines_of_the_hunk_is_found_with_the_words_around_it() -> None:
    steps = (
        Step("u", "user", 1.0, "Fix it."),
        said("I look first.", 2.0, ToolCall("a", "Read", {"file_path": f"{WORK}/shop/cart.py"})),
        result("a", 3.0, NEW),
        said("It failed.", 4.0, edit("b", f"{WORK}/shop/cart.py", "return 0", NEW)),
        result("b", 5.0, "String to replace not found", is_error=True),
        said("", 5.5, edit("b2", f"{WORK}/other/cart.py", "return 0", NEW)),
        result("b2", 5.6),
        said("\x1b[31mThe total\x1b[0m forgets the count.", 6.0, edit("c", f"{WORK}/shop/cart.py", "return 0", NEW)),
        result("c", 7.5),
        said("", 8.0, edit("d", f"{WORK}/shop/cart.py", "class Cart:", "class Cart:  # of a shop")),
        result("d", 9.0),
        said("Now the tests.", 10.0),
    )  # fmt: skip
    found = find_edit(steps, "shop/cart.py", WANTED)
    assert found is not None
    assert (found.step, found.at, found.lines) == (7, 7.5, 2)
    assert found.before == "The total forgets the count."
    assert found.after == "Now the tests."
    assert found.call.splitlines() == [
        f"Edit: {WORK}/shop/cart.py", "  - return 0", f"  + {NEW}",
    ]  # fmt: skip
    assert find_edit(steps, "shop/list.py", WANTED) is None


def test_the_last_of_equal_calls_counts_because_the_file_has_its_text() -> None:
    new = "        return sum(price * count for price, count in self.items)"
    steps = (
        said("", 1.0, ToolCall("a", "Write", {"file_path": "cart.py", "content": f"class Cart:\n{new}\n"})),
        said("", 2.0, ToolCall("b", "MultiEdit", {"file_path": "cart.py", "edits": [{"old_string": new}, 7]})),
        said("", 3.0, ToolCall("c", "Write", {"file_path": "cart.py", "content": f"class Cart:\n{new}\n"})),
    )  # fmt: skip
    found = find_edit(steps, "cart.py", hunk((new,)))
    assert found is not None
    assert found.step == 2


def test_patches_and_commands_of_other_agents_are_found() -> None:
    patch = f"*** Begin Patch\n*** Update File: shop/cart.py\n@@\n-        return 0\n+        {NEW}\n*** End Patch"
    codex = said("", 1.0, ToolCall("a", "apply_patch", {"input": patch}))
    assert (found := find_edit((codex,), "shop/cart.py", WANTED)) is not None
    assert found.lines == 2

    def bash(command: str) -> int | None:
        made = find_edit((said("", 1.0, ToolCall("a", "Bash", {"command": command})),), "shop/cart.py", WANTED)
        return None if made is None else made.lines

    assert bash(f"cat > shop/cart.py <<'END'\n        {NEW}\nEND") == 1
    assert bash("sed -i s/0/1/ shop/cart.py") == 0
    assert bash("grep 0 shop/cart.py") is None


def test_the_agents_own_red_run_of_a_test_is_found() -> None:
    def bash(call: str, command: str) -> ToolCall:
        return ToolCall(call, "Bash", {"command": command})

    steps = (
        said("First.", 1.0, bash("a", "pytest -q tests/test_cart.py::test_total")),
        result("a", 2.0, "FAILED tests/test_cart.py::test_total\n1 failed in 0.1s", is_error=True),
        said("Fixed.", 3.0, bash("b", "pytest -q tests/test_cart.py::test_total")),
        result("b", 4.0, "1 passed in 0.1s"),
        said("", 5.0, bash("c", "pytest -q tests/test_list.py")),
        result("c", 6.0, "2 failed in 0.1s", is_error=True),
    )
    found = find_test_run(steps, "tests/test_cart.py::test_total")
    assert found is not None
    assert (found.step, found.at, found.before, found.after) == (0, 2.0, "First.", "Fixed.")
    assert find_test_run(steps[:1], "tests/test_cart.py::test_total") is None


def test_the_words_around_a_moment_are_the_messages_before_and_after_it() -> None:
    steps = (said("One.", 1.0), said("Two.", 5.0))
    around = words_around(steps, 3.0)
    assert (around.before, around.after, around.step, around.after_step) == ("One.", "Two.", 0, 1)
    assert words_around(steps, 0.5).before == ""
    assert words_around((), 0.5).step is None
