"""A conflict is resolved by content: by a person, by what was remembered, by the rule for changelogs, or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pytest

from core.review.repositories import Repository
from selftest_core.errors import RefusedError, UsageError
from selftest_core.review.candidate_branch import Decision, Item, Line, Status, build_line, store_line
from selftest_core.review.conflict_files import ConflictFile, choose, read_conflicts, read_copies, write_copies
from selftest_core.review.engine import Engine
from selftest_core.review.publishing import check_by_rebuilding
from selftest_core.review.resolutions import (  # fmt: skip
    Resolution,
    ResolutionMemory,
    answers_of,
    is_changelog,
    resolution_folder,
    resolution_from_json,
    resolution_json,
    unresolvable_reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass
class Clash:
    """A base with branches of agents, and an engine on it."""

    repository: Repository
    engine: Engine
    base: str = ""

    def start(self, files: Mapping[str, str | bytes]) -> None:
        self.base = self.repository.commit("Start", files)

    def item(self, files: Mapping[str, str | bytes | None], name: str = "") -> Item:
        """A commit of its own on the base."""
        self.repository.git("checkout", "-q", "-f", "--detach", self.base)
        return self.of(self.repository.commit(name or "Change", files))

    def of(self, oid: str) -> Item:
        commit = self.engine.store.commit(oid)
        return Item(oid, self.engine.store.tree_of(commit.parents[0]), commit.tree, commit.author, commit.message)

    def build_line(self, *items: Item, **decisions: Decision) -> Line:
        return build_line(self.engine, self.base, self.engine.store.tree_of(self.base), items, decisions)

    def resolved(self, *items: Item, by: Resolution, stored: bool = True) -> Line:
        tree = self.engine.store.tree_of(self.base)
        return build_line(self.engine, self.base, tree, items, {}, answers=answers_of([by]), stored=stored)

    def text(self, line: Line, path: str) -> str:
        return self.engine.store.git.ask("show", f"{line.tip}:{path}")

    def conflicts(self, line: Line) -> tuple[ConflictFile, ...]:
        (held,) = (one for one in line.items if one.status is Status.HELD)
        return read_conflicts(self.engine, held.conflicts)


@pytest.fixture
def clash(tmp_path: Path) -> Iterator[Clash]:
    repository = Repository.make(tmp_path / "r")
    with Engine.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as engine:
        yield Clash(repository, engine)


def test_a_person_edits_a_copy_with_all_three_sides_and_it_is_laid(clash: Clash, tmp_path: Path) -> None:
    clash.start({"src/a.py": "top\nold\nend\n", "b": "1\n"})
    first, second = clash.item({"src/a.py": "top\none\nend\n"}), clash.item({"src/a.py": "top\ntwo\nend\n", "b": "2\n"})
    files = clash.conflicts(clash.build_line(first, second))
    assert (files[0].base, files[0].ours, files[0].theirs) == (
        b"top\nold\nend\n",
        b"top\none\nend\n",
        b"top\ntwo\nend\n",
    )
    (copy,) = write_copies(files, tmp_path / "copies")
    assert copy.read_text().splitlines() == [
        "top", "<<<<<<< the branch so far", "one", "||||||| base", "old", "=======", "two", ">>>>>>> this change",
        "end",
    ]  # fmt: skip
    assert copy.name == "01-a.py"
    with pytest.raises(UsageError, match="still has conflict markers"):
        read_copies(files, [copy])
    copy.write_text("top\none and two\nend\n")
    resolution = read_copies(files, [copy])
    line = clash.resolved(first, second, by=resolution)
    assert [one.status for one in line.items] == [Status.LAID, Status.LAID]
    assert [answer.by for answer in line.items[1].answers] == ["person"]
    assert (clash.text(line, "src/a.py"), clash.text(line, "b")) == ("top\none and two\nend\n", "2\n")
    assert clash.repository.git("status", "--porcelain") == ""


def test_a_resolved_line_is_proved_and_stored_as_it_was_laid(clash: Clash, tmp_path: Path) -> None:
    clash.start({"a": "old\n"})
    items = [clash.item({"a": "one\n"}), clash.item({"a": "two\n"}), clash.item({"c": "3\n"})]
    resolution = choose(clash.conflicts(clash.build_line(*items)), "theirs")
    line = clash.resolved(*items, by=resolution, stored=False)
    answers = answers_of([resolution])
    check_by_rebuilding(line, tmp_path, clash.repository.folder / ".git", os.environ, items, {}, answers)
    with pytest.raises(RefusedError, match="cannot be verified"):
        check_by_rebuilding(line, tmp_path, clash.repository.folder / ".git", os.environ, items, {})
    store_line(clash.engine, line, clash.engine.store.tree_of(clash.base))
    assert clash.text(line, "a") == "two\n"
    clash.engine.store.git.ask("fsck", "--strict", "--no-dangling", line.tip)


@pytest.mark.parametrize(("side", "status", "left"), [("ours", Status.VOID, "one\n"), ("base", Status.LAID, "old\n")])
def test_one_side_can_be_taken(clash: Clash, side: Literal["ours", "base"], status: Status, left: str) -> None:
    clash.start({"a": "old\n"})
    items = [clash.item({"a": "one\n"}), clash.item({"a": "two\n"})]
    line = clash.resolved(*items, by=choose(clash.conflicts(clash.build_line(*items)), side))
    assert line.items[1].status is status
    assert clash.text(line, "a") == left


def test_a_file_that_one_deleted_and_another_changed_is_kept_or_goes(clash: Clash, tmp_path: Path) -> None:
    clash.start({"a": "old\n", "b": "1\n"})
    items = [clash.item({"a": "new\n"}), clash.item({"a": None, "b": "2\n"})]
    files = clash.conflicts(clash.build_line(*items))
    assert (files[0].merged, files[0].theirs) == (None, None)
    gone = clash.resolved(*items, by=choose(files, "theirs"))
    assert clash.engine.store.git.ask("ls-tree", "-r", "--name-only", gone.tip).split() == ["b"]
    stays = clash.resolved(*items, by=choose(files, "ours"))
    assert clash.text(stays, "a") == "new\n"
    (copy,) = write_copies(files, tmp_path / "copies")
    assert copy.read_text() == "new\n"
    copy.unlink()
    assert clash.resolved(*items, by=read_copies(files, [copy])).tree == gone.tree


def test_an_answer_holds_wherever_the_same_three_contents_meet(clash: Clash) -> None:
    clash.start({"a": "old\n", "b": "1\n"})
    one, two, far = clash.item({"a": "one\n"}), clash.item({"a": "two\n"}), clash.item({"b": "2\n"})
    resolution = choose(clash.conflicts(clash.build_line(one, two)), "theirs")
    moved = clash.resolved(far, one, two, by=resolution)
    assert [placed.status for placed in moved.items] == [Status.LAID] * 3
    # The other way round other contents meet: that is another question.
    assert clash.resolved(two, one, by=resolution).items[1].status is Status.HELD


def test_binary_sides_are_chosen_not_merged(clash: Clash) -> None:
    clash.start({"logo": b"\0old"})
    items = [clash.item({"logo": b"\0one"}), clash.item({"logo": b"\0two"})]
    files = clash.conflicts(clash.build_line(*items))
    assert (files[0].is_text, files[0].merged) == (False, None)
    line = clash.resolved(*items, by=choose(files, "theirs"))
    assert clash.engine.store.git.ask("show", f"{line.tip}:logo") == "\0two"


def test_text_about_conflicts_gets_longer_markers(clash: Clash, tmp_path: Path) -> None:
    about = "how git marks\n<<<<<<< HEAD\n"
    clash.start({"a": about + "old\n"})
    items = [clash.item({"a": about + "one\n"}), clash.item({"a": about + "two\n"})]
    files = clash.conflicts(clash.build_line(*items))
    (copy,) = write_copies(files, tmp_path / "copies")
    assert "<" * 11 + " the branch so far" in copy.read_text()
    copy.write_text(about + "both\n")
    assert clash.resolved(*items, by=read_copies(files, [copy])).items[1].status is Status.LAID


def test_both_modes_and_contents_survive_a_resolution(clash: Clash) -> None:
    clash.start({"run.sh": "old\n"})
    clash.repository.git("checkout", "-q", "--detach", clash.base)
    (clash.repository.folder / "run.sh").chmod(0o755)
    executable = clash.of(clash.repository.commit("Run", {"run.sh": "one\n"}))
    items = [executable, clash.item({"run.sh": "two\n"})]
    files = clash.conflicts(clash.build_line(*items))
    assert files[0].mode == "100755"


def test_where_paths_clash_only_another_order_or_a_revert_helps(clash: Clash) -> None:
    clash.start({"a": "same\n" * 9, "b": "1\n"})
    items = [clash.item({"a": None, "x": "same\n" * 9}), clash.item({"a": None, "y": "same\n" * 9})]
    line = clash.build_line(*items)
    (held,) = (one for one in line.items if one.status is Status.HELD)
    assert "conflict is between paths" in unresolvable_reason(held.conflicts)
    with pytest.raises(RefusedError, match="cannot be resolved by editing"):
        read_conflicts(clash.engine, held.conflicts)


def test_lists_that_everybody_adds_to_keep_both_lines(clash: Clash) -> None:
    clash.start({"CHANGELOG.md": "# Changes\n\n- old\n", "notes.md": "- old\n"})
    items = [
        clash.item({"CHANGELOG.md": "# Changes\n\n- one\n- old\n"}),
        clash.item({"CHANGELOG.md": "# Changes\n\n- two\n- old\n"}),
    ]
    line = clash.build_line(*items)
    assert [one.status for one in line.items] == [Status.LAID, Status.LAID]
    assert [answer.by for answer in line.items[1].answers] == ["union"]
    assert clash.text(line, "CHANGELOG.md").splitlines() == ["# Changes", "", "- one", "- two", "- old"]
    mixed = [clash.item({"notes.md": "- one\n"}), clash.item({"notes.md": "- two\n", "CHANGELOG.md": "x\n"})]
    assert clash.build_line(*items, *mixed).items[3].status is Status.HELD


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("CHANGELOG.md", True),
        ("docs/changes.rst", True),
        ("NEWS", True),
        ("changelog.py", False),
        ("a/newsroom", False),
    ],
)
def test_what_counts_as_a_changelog(path: str, is_one: bool) -> None:
    assert is_changelog(path) is is_one


def test_answers_are_remembered_for_the_next_run_and_forgotten(clash: Clash, tmp_path: Path) -> None:
    clash.start({"a": "old\n"})
    items = [clash.item({"a": "one\n"}), clash.item({"a": "two\n"})]
    line = clash.build_line(*items)
    memory = ResolutionMemory(resolution_folder({"XDG_STATE_HOME": str(tmp_path / "state")}))
    conflicts = line.items[1].conflicts
    assert memory.recall(conflicts) is None
    memory.remember(choose(clash.conflicts(line), "theirs"))
    recalled = memory.recall(conflicts)
    assert recalled is not None
    assert [answer.by for answer in recalled.answers] == ["memory"]
    assert clash.text(clash.resolved(*items, by=recalled), "a") == "two\n"
    (file,) = (tmp_path / "state" / "selftest-tui" / "resolutions").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.write_text('{"answers": [')
    assert ResolutionMemory(file.parent).recall(conflicts) is None
    file.unlink()
    assert memory.recall(conflicts) is None
    # Another review's answer is seen without a new start.
    ResolutionMemory(file.parent).remember(recalled)
    assert memory.recall(conflicts) == recalled


def test_a_resolution_survives_json_whatever_its_content_is(clash: Clash) -> None:
    clash.start({"a": "old\n", "logo": b"\0old", "gone": "x\n"})
    one = clash.item({"a": "one\n", "logo": b"\0one", "gone": "y\n"})
    two = clash.item({"a": "zwölf\r\n", "logo": b"\0\xfftwo", "gone": None})
    resolution = choose(clash.conflicts(clash.build_line(one, two)), "theirs")
    again = resolution_from_json(json.loads(json.dumps(resolution_json(resolution))))
    assert again == resolution
    assert clash.resolved(one, two, by=again).items[1].status is Status.LAID


@pytest.mark.parametrize(
    "change",
    [
        {"base": "100644 short"}, {"mode": "40000"}, {"mode": None}, {"text": 1}, {"by": "no body"}, {"more": 1},
        {"base64": "AA=="}, {"base": None, "ours": None}, {"path": None}, {"text": "\ud800"},
    ],
)  # fmt: skip
def test_a_meddled_resolution_is_refused(change: dict[str, object]) -> None:
    side = "100644 " + "a" * 40
    answer: dict[str, object] = {"path": "a", "base": side, "ours": side, "theirs": None, "mode": "100644", "text": "x"}
    assert resolution_from_json({"answers": [answer]}).answers[0].content == b"x"
    with pytest.raises(ValueError, match=r"."):
        resolution_from_json({"answers": [{**answer, **change}]})
