"""A commit's kind errs towards implementation, which is what a person reads one by one."""

from __future__ import annotations

import pytest

from selftest_core.review.changes.kinds import Kind, kind_of_commit, kind_of_path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/login.py", Kind.IMPLEMENTATION),
        ("contest.py", Kind.IMPLEMENTATION),
        ("latest/app.py", Kind.IMPLEMENTATION),
        ("tests/test_login.py", Kind.TEST),
        ("src/login_test.go", Kind.TEST),
        ("web/app.spec.ts", Kind.TEST),
        ("tests/conftest.py", Kind.BUILD),
        (".github/workflows/ci.yml", Kind.BUILD),
        ("requirements-dev.txt", Kind.BUILD),
        ("uv.lock", Kind.BUILD),
        ("README.md", Kind.DOCS),
        ("docs/conf.py", Kind.DOCS),
        ("tutorial.sh", Kind.DOCS),
    ],
)
def test_a_path_has_a_kind(path: str, kind: Kind) -> None:
    assert kind_of_path(path) is kind


@pytest.mark.parametrize(
    ("subject", "trailers", "paths", "kind"),
    [
        ("[FIX_IMPL] mend", [], ["tests/test_a.py"], Kind.IMPLEMENTATION),
        ("[IMPROVE_TEST] sharpen", [], ["tests/test_a.py"], Kind.TEST),
        ("[FIX_TEST] sharpen", [], ["tests/test_a.py", "src/a.py"], Kind.MIXED),
        ("[FIX_TUTORIAL] word", [], ["tutorial.sh"], Kind.DOCS),
        ("[NEW_WORD] what is this", [], ["tests/test_a.py"], Kind.TEST),
        ("mend", [("Kind", "implementation")], ["docs/a.md"], Kind.IMPLEMENTATION),
        ("[TEST] x", [("kind", "docs")], ["docs/a.md"], Kind.DOCS),
        ("mend", [], ["src/a.py"], Kind.IMPLEMENTATION),
        ("mend with its test", [], ["src/a.py", "tests/test_a.py"], Kind.MIXED),
        ("words", [], ["README.md", "tests/test_a.py"], Kind.TEST),
        ("lock", [], ["uv.lock"], Kind.BUILD),
        ("nothing", [], [], Kind.IMPLEMENTATION),
    ],
)
def test_a_commit_has_a_kind(subject: str, trailers: list[tuple[str, str]], paths: list[str], kind: Kind) -> None:
    assert kind_of_commit(subject, trailers, paths) is kind


def test_only_source_counts_as_implementation() -> None:
    assert [kind for kind in Kind if kind.is_implementation] == [Kind.IMPLEMENTATION, Kind.MIXED]
