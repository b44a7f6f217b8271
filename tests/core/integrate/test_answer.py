"""An answer that came back is hostile until it is read: names, links, sizes, and what is no text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.git.merges import Side
from selftest_core.integrate.answer import LARGEST_ANSWER, UnusableAnswerError, read_answer
from selftest_core.integrate.task import StoredTask, TaskChange, TaskFile
from selftest_core.run.outcome.outcome_file import parse_outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from selftest_core.run.outcome.outcome import Outcome

SIDES = (Side("100644", "1" * 40), Side("100644", "2" * 40), Side("100644", "3" * 40))


def task(*paths: str, folder: str = "") -> StoredTask:
    files = tuple(TaskFile(path, *SIDES) for path in paths)
    return StoredTask("review-1", (TaskChange("a" * 40, "Mend", folder, files),))


def outcome(text: str = '{"errored": false}') -> Outcome:
    return parse_outcome(text.encode())


def write(place: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = place / "resolved" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_files_are_answered_by_their_paths(tmp_path: Path) -> None:
    write(tmp_path, {"src/a.py": "x = 1\n"})
    said = outcome(
        '{"errored": false, "deleted": ["b.py", "../etc/passwd"], "one_side": {"src/a.py": " why ", "b.py": 3}}'
    )
    answer = read_answer(tmp_path, task("src/a.py", "b.py"), said)
    assert answer.texts == {"src/a.py": b"x = 1\n"}
    assert answer.deleted == {"b.py"}
    assert answer.one_side == {"src/a.py": "why"}


def test_each_change_of_several_has_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"1/a.py": "x = 1\n", "2/a.py": "x = 2\n"})
    two = StoredTask("review-1", (*task("a.py", folder="1").changes, *task("a.py", folder="2").changes))
    said = outcome('{"errored": false, "one_side": {"2/a.py": "it is newer"}}')
    answer = read_answer(tmp_path, two, said)
    assert answer.texts == {"1/a.py": b"x = 1\n", "2/a.py": b"x = 2\n"}
    assert answer.one_side == {"2/a.py": "it is newer"}


def nothing(place: Path) -> None: ...


def a_link(place: Path) -> None:
    (place / "resolved").mkdir()
    (place / "resolved" / "a.py").symlink_to("/etc/passwd")


def a_linked_folder(place: Path) -> None:
    (place / "else").mkdir()
    (place / "else" / "a.py").write_text("x")
    (place / "resolved").symlink_to(place / "else")


def a_pipe(place: Path) -> None:
    (place / "resolved").mkdir()
    os.mkfifo(place / "resolved" / "a.py")


def a_folder(place: Path) -> None:
    (place / "resolved" / "a.py").mkdir(parents=True)


def many(place: Path) -> None:
    write(place, {f"{number}.py": "" for number in range(300)})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (nothing, "it does not answer a.py"),
        (a_link, "a.py is not a regular file"),
        (a_linked_folder, "resolved is not a regular file"),
        (a_pipe, "a.py is not a regular file"),
        (a_folder, "it does not answer a.py"),
        (many, "more than 200 files"),
        (lambda place: write(place, {"a.py": "x", "b\x1b[1m.py": "x"}), "it answers b␛"),
        (lambda place: write(place, {"a.py": b"x" * (LARGEST_ANSWER + 1)}), "a.py has more than 1024 KiB"),
        (lambda place: write(place, {"a.py": b"\xff\xfe"}), "a.py is not UTF-8 text"),
        (lambda place: write(place, {"a.py": b"a\0b"}), "a.py is not text"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(make: Callable[[Path], Any], reason: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(UnusableAnswerError) as caught:
        read_answer(tmp_path, task("a.py"), outcome())
    assert reason in caught.value.title


def test_a_file_is_not_both_deleted_and_written(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "x"})
    with pytest.raises(UnusableAnswerError, match=r"it deletes a\.py, and answers it"):
        read_answer(tmp_path, task("a.py"), outcome('{"errored": false, "deleted": ["a.py"]}'))
