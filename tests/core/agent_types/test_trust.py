"""Entries of our agents' folders leave ~/.claude.json, others stay, and a file that somebody else works on is left."""

from __future__ import annotations

import fcntl
import json
import stat
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftest_core.agent_types import trust
from selftest_core.agent_types.trust import claude_file, entries_of, remove_entries, replace_unchanged

if TYPE_CHECKING:
    from pathlib import Path

OURS = ("/m/copies/agent-1", "/m/copies/agent-2")
THEIRS = "/home/ann/sh\u00f6p"


def a_file(folder: Path, *names: str, **more: Any) -> Path:
    path = folder / ".claude.json"
    projects = {name: {"hasTrustDialogAccepted": True} for name in names}
    path.write_text(json.dumps({"numStartups": 7, "projects": projects, **more}, indent=2) + "\n")
    return path


def test_only_our_entries_go(tmp_path: Path) -> None:
    file = a_file(tmp_path, OURS[0], THEIRS, OURS[1], oauthAccount={"name": "\ud83d\ude00 \u00e9"})
    file.chmod(0o600)
    before = json.loads(file.read_text())
    assert entries_of(file, (*OURS, "/m/copies/agent-3")) == OURS

    assert remove_entries(file, OURS) == ""

    after = json.loads(file.read_text())
    assert list(after["projects"]) == [THEIRS]
    assert {**after, "projects": 0} == {**before, "projects": 0}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert entries_of(file, OURS) == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".claude.json"]  # no draft, no lock


def test_a_file_without_them_is_not_written(tmp_path: Path) -> None:
    file = a_file(tmp_path, THEIRS)
    stamp = file.stat()
    assert remove_entries(file, OURS) == ""
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (stamp.st_ino, stamp.st_mtime_ns)
    assert remove_entries(tmp_path / "none", OURS) == ""


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = a_file(tmp_path / "dotfiles", *OURS)
    link = tmp_path / ".claude.json"
    link.symlink_to(real)
    assert remove_entries(link, OURS) == ""
    assert link.is_symlink()
    assert entries_of(real, OURS) == ()


@pytest.mark.parametrize("by", ["mngr", "Claude Code"])
def test_a_file_that_somebody_has_locked_is_left(tmp_path: Path, by: str) -> None:
    file = a_file(tmp_path, *OURS)
    text = file.read_text()
    lock = tmp_path / ".claude.json.lock"
    if by == "Claude Code":
        lock.mkdir()
        assert "in use" in remove_entries(file, OURS)
        assert lock.is_dir()
        lock.rmdir()
    else:
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert "in use" in remove_entries(file, OURS)
            assert file.read_text() == text
    assert remove_entries(file, OURS) == ""
    assert lock.exists() is (by == "mngr")


def test_a_file_that_changed_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    file = a_file(tmp_path, *OURS)
    read = trust._read(file)
    same_length = file.read_text().replace("7", "8")
    file.write_text(same_length)
    assert not replace_unchanged(file, read, b"{}")
    assert file.read_text() == same_length
    assert [path.name for path in tmp_path.iterdir()] == [".claude.json"]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"projects": 3}', b"\xff{", b"{" * 100_000])
def test_a_file_that_is_none_of_claudes_is_left(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / ".claude.json"
    file.write_bytes(content)
    remove_entries(file, OURS)
    assert file.read_bytes() == content


def test_the_file_is_found_as_mngr_finds_it(tmp_path: Path) -> None:
    own = {"HOME": str(tmp_path)}
    assert claude_file(own) == tmp_path / ".claude.json"
    outer = tmp_path / "outer" / ".claude"
    outer.mkdir(parents=True)
    inside = {**own, "ORIGINAL_CLAUDE_CONFIG_DIR": str(outer)}
    (outer.parent / ".claude.json").write_text("{}")
    assert claude_file(inside) == outer.parent / ".claude.json"
    (outer / ".claude.json").write_text("{}")
    assert claude_file(inside) == outer / ".claude.json"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(others=st.dictionaries(st.text(), _JSON, max_size=4), theirs=st.dictionaries(st.text(), _JSON, max_size=4))
def test_whatever_else_stands_there_is_kept(
    tmp_path_factory: pytest.TempPathFactory, others: dict[str, Any], theirs: dict[str, Any]
) -> None:
    file = tmp_path_factory.mktemp("home") / ".claude.json"
    kept = {name: entry for name, entry in theirs.items() if name not in OURS}
    file.write_text(json.dumps({**others, "projects": {**kept, **{name: {} for name in OURS}}}))
    assert remove_entries(file, OURS) == ""
    assert json.loads(file.read_text()) == {**others, "projects": kept}
