"""Everything that agents did is found at its place; what is gone is not; a broken index is made anew."""

from __future__ import annotations

import resource
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from core.run.fingerprints import fingerprint
from recorder.search.past import REVIEW, make_past, write_outcome
from run_scenes import RUN
from selftest_core.errors import SelftestError, UsageError
from selftest_core.git.command import find_place
from selftest_recorder.search.building import follow, start_builder
from selftest_recorder.search.database import index_file
from selftest_recorder.search.hits import Scope, command_of, excerpt, parse_query, parse_regex
from selftest_recorder.search.sources import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from recorder.search.past import Past


@pytest.fixture
def past(tmp_path: Path) -> Past:
    """A repository with a past that is indexed."""
    made = make_past(tmp_path)
    made.build()
    return made


def test_each_kind_of_place_is_found_where_it_is(past: Past) -> None:
    agent, node = past.story.row(0).name, past.story.row(0).planned.node_id

    def one(text: str, kind: Kind) -> tuple[str, str, str, float | None, int | None, str, str]:
        (hit,) = past.find(text, scope=Scope(kinds=frozenset({kind})))
        assert hit.kind is kind
        return hit.run, hit.test, hit.agent, hit.seconds, hit.line, hit.commit, hit.file

    assert one("customers lose coup", Kind.OUTCOME) == (RUN, node, agent, None, None, "", "")
    assert one("ConnectionRefused 40001", Kind.OUTCOME)[1] == past.story.row(1).planned.node_id
    assert one("accountant", Kind.NOTE) == (REVIEW, "", "", None, None, past.fix, "")
    assert one("walrus", Kind.DECISION) == (REVIEW, "", "", None, None, past.fix, "")
    assert one("käsekuchen", Kind.CONVERSATION) == (RUN, node, agent, None, 2, "", "")
    assert one('"1 x tea"', Kind.TRANSCRIPT) == (RUN, node, agent, None, 2, "", "")
    assert one("zeppelin", Kind.TERMINAL) == (RUN, node, agent, 9.0, None, "", "")
    both = past.find("coupon_of(request)", scope=Scope(kinds=frozenset({Kind.DIFF})))
    assert {(hit.run, hit.agent, hit.line, hit.commit, hit.file) for hit in both} == {
        (RUN, agent, 1, past.fix, "src/login.py"), (REVIEW, "ada", 1, past.fix, "src/login.py"),
    }  # fmt: skip


def test_words_begin_and_identifiers_stand_as_they_are_written(past: Past) -> None:
    assert [hit.text for hit in past.find("test_login.py::redirect")] == ["tests/test_login.py::redirect FAILED"]
    assert past.find("REDIR fail") == past.find("fail redir")
    assert past.find("edirect FAILED") == []
    assert past.find("ze") == []
    assert past.find("test_login/py redirect") == []
    assert past.find('"redir"', scope=Scope(kinds=frozenset({Kind.TERMINAL}))) == []
    assert past.find("zeppelin", scope=Scope(run=REVIEW)) == []
    with pytest.raises(UsageError, match="no word"):
        parse_query(" :: ")


def test_a_regular_expression_is_looked_for_in_every_line(past: Past) -> None:
    assert [hit.kind for hit in past.scan(r"zep{2}elin$|lose.+coupons")] == [Kind.OUTCOME, Kind.TERMINAL]
    with pytest.raises(UsageError, match="no regular expression"):
        parse_regex("(")


def test_the_command_of_a_hit_opens_its_place(past: Past) -> None:
    cast = past.first / "terminal.cast"

    def command(text: str) -> str:
        return command_of(past.find(text)[0], past.top)

    assert command("zeppelin") == f"selftest-tui replay '{cast}' --at 9.0"
    assert command("käsekuchen") == f"less +2 '{past.first / 'conversation.txt'}'"
    assert command("ConnectionRefusedError") == f"selftest-tui runs {RUN}"
    assert command("walrus") == "selftest-tui review main..ada"
    assert command("coupon_of") == f"selftest-tui review {RUN}"


def test_a_match_far_into_a_line_is_in_its_excerpt(past: Past) -> None:
    text, spans = excerpt("x" * 1_000 + " needle " + "y" * 1_000, parse_query("needle").marks)
    assert [text[begin:end] for begin, end in spans] == ["needle"]
    assert (text[0], text[-1]) == ("…", "…")


def test_what_agents_wrote_is_text_without_control_characters(past: Past) -> None:
    found = [*past.find("evil"), *past.scan("alert")]
    assert {hit.kind for hit in found} == {Kind.TRANSCRIPT, Kind.NOTE}
    for hit in found:
        assert "\x1b" not in hit.text
        assert "\u202e" not in hit.text
        assert "[bold]<script>alert(1)</script>" in hit.text


def test_only_what_changed_is_read_again_and_what_is_gone_vanishes(past: Past) -> None:
    assert past.build()[-1].all_sources == 0
    write_outcome(past.first, summary_markdown="a new marmalade")
    (past.first / "e2e" / "transcript.txt").unlink()
    last = past.build()[-1]
    assert (last.all_sources, last.is_done) == (1, True)
    assert len(past.find("marmalade")) == 1
    assert past.find("drops") == []
    assert past.find("evil", scope=Scope(kinds=frozenset({Kind.TRANSCRIPT}))) == []
    shutil.rmtree(past.story.folder.path)
    assert {hit.run for hit in past.scan(".")} == {REVIEW}
    past.build()
    with sqlite3.connect(index_file(past.top, past.environ)) as database:
        assert database.execute("SELECT COUNT(*) FROM source WHERE run = ?", (RUN,)).fetchone() == (0,)
        assert database.execute("SELECT COUNT(*) FROM words WHERE words MATCH 'zeppelin'").fetchone() == (0,)


@pytest.mark.parametrize("damage", ["other version", "overwritten", "no database", "emptied"])
def test_a_broken_index_is_made_anew(past: Past, damage: str) -> None:
    path = index_file(past.top, past.environ)
    if damage == "other version":
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 999")
    elif damage == "overwritten":
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        data = bytearray(path.read_bytes())
        data[4096:-100] = b"\x55" * (len(data) - 4196)
        path.write_bytes(data)
    else:
        path.write_bytes(b"this is no database at all" * 100 if damage == "no database" else b"")
    assert past.build()[-1].is_done
    assert len(past.find("zeppelin")) == 1


def test_two_builders_at_once_make_one_whole_index(past: Past) -> None:
    past.build()
    index_file(past.top, past.environ).unlink()
    builders = [start_builder(past.top, past.environ) for _ in range(2)]
    ends = [list(follow(one))[-1] for one in builders]
    for one in builders:
        one.end()
    assert all(end.is_done for end in ends)
    assert sum(end.all_sources > 0 for end in ends) == 1
    assert len(past.find("zeppelin")) == 1


def test_an_index_that_cannot_be_written_says_where(past: Past, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    past.environ = {**past.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}
    with pytest.raises(SelftestError, match="cannot be written"):
        past.build()


def test_the_repository_is_not_touched_and_the_index_is_for_its_owner_alone(past: Past) -> None:
    place = find_place(past.top, past.environ)
    before = fingerprint(place, past.environ)
    shutil.rmtree(index_file(past.top, past.environ).parent)
    past.build()
    assert fingerprint(place, past.environ) == before
    path = index_file(past.top, past.environ)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_full_disk_is_named_and_what_was_indexed_before_is_still_found(past: Past) -> None:
    (past.first / "long.log").write_text("".join(f"walnut {number}\n" for number in range(50_000)), encoding="utf-8")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, before[1]))  # inherited by the builder, whose disk is full
    try:
        builder = start_builder(past.top, past.environ)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    last = list(follow(builder))[-1]
    builder.end()
    assert "cannot be used" in last.error
    assert last.hint
    assert len(past.find("zeppelin")) == 1
    assert past.find("walnut") == []
    past.build()
    assert len(past.find("walnut")) == 1_000
