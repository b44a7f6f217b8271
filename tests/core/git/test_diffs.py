"""Diffs are read as they are, whatever an agent wrote, and cost no more than is looked at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository, tree_body
from selftest_core.git.diffs import FileDiff, FileStatus, compare_trees, read_diff
from selftest_core.git.object_store import ObjectStore
from selftest_core.git.patches import LONGEST, LineKind, Patch, changed_words, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "".join(f"line {n}\n" for n in range(40))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "r")


@pytest.fixture
def store(repository: Repository, tmp_path: Path) -> Iterator[ObjectStore]:
    with ObjectStore.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as opened:
        yield opened


def only(files: tuple[FileDiff, ...]) -> FileDiff:
    (file,) = files
    return file


def signed(file: FileDiff) -> list[str]:
    signs = {LineKind.CONTEXT: " ", LineKind.REMOVED: "-", LineKind.ADDED: "+"}
    return [signs[line.kind] + line.text for hunk in file.hunks for line in hunk.lines]


def test_lines_have_their_numbers_and_the_words_that_differ(repository: Repository, store: ObjectStore) -> None:
    repository.commit("Start", {"a.py": FILE})
    oid = repository.commit("Mend", {"a.py": FILE.replace("line 3\n", "line three\n").replace("line 30\n", "")})
    file = only(read_diff(store, oid))
    assert (file.path, file.status, file.added, file.removed) == ("a.py", FileStatus.MODIFIED, 1, 2)
    first, second = file.hunks
    assert (first.old_start, first.old_count, first.new_start, first.new_count) == (1, 7, 1, 7)
    gone, came = (line for line in first.lines if line.kind is not LineKind.CONTEXT)
    assert (gone.old, gone.new, gone.text, gone.other) == (4, None, "line 3", "line three")
    assert (came.old, came.new) == (None, 4)
    assert [came.text[start:end] for start, end in came.spans] == ["three"]
    assert [line.new for line in second.lines if line.kind is LineKind.CONTEXT] == [28, 29, 30, 31, 32, 33]
    rows = list(first.rows())
    assert [(left and left.text, right and right.text) for left, right in rows][3] == ("line 3", "line three")
    assert [(left is None, right is None) for left, right in second.rows()].count((False, True)) == 1


def test_a_first_commit_adds_everything_and_a_deleted_file_goes(repository: Repository, store: ObjectStore) -> None:
    first = repository.commit("Start", {"a": "1\n", "empty": ""})
    second = repository.commit("Drop", {"a": None})
    added = read_diff(store, first)
    assert [(file.path, file.status, file.added, file.old_mode) for file in added] == [
        ("a", FileStatus.ADDED, 1, None), ("empty", FileStatus.ADDED, 0, None),
    ]  # fmt: skip
    gone = only(read_diff(store, second))
    assert (gone.status, gone.removed, gone.new_mode) == (FileStatus.DELETED, 1, None)


def test_renames_modes_types_and_missing_newlines_are_told(repository: Repository, store: ObjectStore) -> None:
    repository.commit("Start", {"old name.py": FILE, "run.sh": "ls\n", "link": "was a file\n", "cut": "a"})
    (repository.folder / "old name.py").rename(repository.folder / "new.py")
    (repository.folder / "run.sh").chmod(0o755)
    (repository.folder / "link").unlink()
    (repository.folder / "link").symlink_to("run.sh")
    (repository.folder / "cut").write_text("b")
    oid = repository.commit("Much", {"new.py": FILE.replace("line 7\n", "line seven\n")})
    files = {file.path: file for file in read_diff(store, oid)}
    assert (files["new.py"].status, files["new.py"].old_path) == (FileStatus.RENAMED, "old name.py")
    assert (files["new.py"].added, files["new.py"].removed) == (1, 1)
    assert (files["run.sh"].old_mode, files["run.sh"].new_mode, files["run.sh"].hunks) == ("100644", "100755", ())
    assert files["link"].status is FileStatus.RETYPED
    assert signed(files["link"]) == ["-was a file", "+run.sh"]
    assert [line.has_newline for line in files["cut"].hunks[0].lines] == [False, False]


def test_a_binary_and_a_file_that_is_too_big_have_sizes(repository: Repository, store: ObjectStore) -> None:
    repository.commit("Start", {"logo.png": b"\0old", "big.txt": "x\n"})
    oid = repository.commit("Grow", {"logo.png": b"\0newer", "big.txt": "many words\n" * 500_000})
    big, logo = read_diff(store, oid)
    assert (logo.is_binary, logo.is_too_big, logo.old_size, logo.new_size) == (True, False, 4, 6)
    assert (big.is_too_big, big.hunks, big.new_size) == (True, (), 5_500_000)


def test_a_patch_of_very_many_lines_keeps_as_many_as_are_allowed() -> None:
    rest = "@@ -8 +8,3 @@\n-a\n+b\n+c\n+d\n\\ No newline at end of file\n@@ -20 +22 @@\n-x\n+y\n"
    reader = Patch(f"diff --git a/a b/a\n@@ -1 +1 @@\n-1\n+2\n{rest}diff --git a/b b/b\n@@ -0,0 +1 @@\n+last\n", room=4)
    first, second = reader.section(), reader.section()
    assert first is not None
    assert second is not None
    assert [[line.text for line in hunk.lines] for hunk in first.hunks] == [["1", "2"], ["a", "b"]]
    assert (first.left_out, second.hunks, second.left_out) == (4, (), 1)
    assert reader.section() is None


def test_content_and_names_cannot_imitate_a_patch(repository: Repository, store: ObjectStore) -> None:
    name = "x\ndiff --git a/fake b/fake\n@@ -1 +1 @@\n+evil"
    content = (
        "diff --git a/y b/y\n@@ -1 +1 @@\n-gone\n+came\nBinary files a and b differ\n\\ No newline at end of file\n"
    )
    repository.commit("Start", {"a": "x\n"})
    oid = repository.commit("Evil", {name: content, "b": "last\n"})
    other, evil = read_diff(store, oid)
    assert (other.path, evil.path) == ("b", shown(name))
    assert signed(evil) == ["+" + line for line in content.splitlines()]
    assert "\n" not in evil.path
    assert signed(other) == ["+last"]


def test_nothing_that_steers_a_terminal_or_turns_text_comes_through(repository: Repository, store: ObjectStore) -> None:
    repository.commit("Start", {"a": "x\n"})
    evil = "\x1b[31mred\x1b]0;title\x07 \u202eturned\u2066 a\tb \x9b1m \r" + "é"
    raw = evil.encode() + b" \xff\xfe\n" + b"w" * (3 * LONGEST) + b"\n"
    oid = repository.commit("Evil", {"a": raw})
    file = only(read_diff(store, oid))
    first, second = (line.text for line in file.hunks[0].lines if line.kind is LineKind.ADDED)
    assert first.startswith("␛[31mred␛]0;title␇ \ufffdturned\ufffd a    b")
    assert first.endswith("é \ufffd\ufffd")
    assert first.isprintable()
    assert (len(second), second[-1]) == (LONGEST, "…")


@pytest.mark.parametrize(
    ("text", "other", "parts"),
    [
        ("return f(a)", "return f(a, b)", []),
        ("return f(a, b)", "return f(a)", [", b"]),
        ("x = one + two", "x = one + three", ["two"]),
        ("same", "same", []),
        ("nothing in common", "wholly different words", []),
        ("    indented", "indented", ["    "]),
    ],
)
def test_only_words_that_the_other_lacks_are_marked(text: str, other: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in changed_words(text, other)] == parts


def test_two_trees_are_compared_without_a_commit(store: ObjectStore) -> None:
    blobs = [store.write(b"blob", text) for text in (b"1\n2\n", b"1\ntwo\n", b"\0binary")]
    trees = [store.write(b"tree", tree_body({b"a": blob})) for blob in blobs]
    (file,) = compare_trees(store, trees[0], trees[1])
    assert [line.text for line in file.hunks[0].lines] == ["1", "2", "two"]
    assert compare_trees(store, trees[0], trees[0]) == ()
    (binary,) = compare_trees(store, trees[0], trees[2])
    assert binary.is_binary
    assert binary.hunks == ()


def test_a_driver_of_the_person_is_never_asked_for_a_diff(repository: Repository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    repository.commit("Start", {"a": "1\n"})
    oid = repository.commit("Evil", {"a": "2\n", ".gitattributes": "* diff=evil\n"})
    for setting in ("diff.evil.textconv", "diff.evil.command", "diff.external"):
        repository.git("config", setting, f"sh -c 'echo {setting} >> {ran}' --")
    with ObjectStore.open(tmp_path / "e.git", repository.folder / ".git", os.environ) as store:
        assert [file.path for file in read_diff(store, oid)] == [".gitattributes", "a"]
    assert not ran.exists()


def test_shown_text_is_one_character_for_each() -> None:
    assert shown("a\x00b\x7f\u200b") == "a␀b␡\ufffd"
