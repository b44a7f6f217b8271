"""Tests of an unhappy path, recognised by their syntax."""

from __future__ import annotations

import ast

import pytest

from selftest_core.sync.unhappy import asserts_failure, says_unhappy


def function_of(body: str, head: str = "def test_it():") -> ast.FunctionDef:
    statement = ast.parse(f"{head}\n    {body}\n").body[0]
    assert isinstance(statement, ast.FunctionDef)
    return statement


@pytest.mark.parametrize(
    "body",
    [
        "expect(done).to_fail()",
        "expect(done).to_have_exit_code(2)",
        "assert done.returncode != 0",
        "assert 2 == done.returncode",
        "assert done['exit_code'] > 0",
        "assert run('x') == (1, 'refused')",
        "assert not done.ok",
        "self.assertRaises(ValueError, run)",
        "assert status() == -9 and output",
        "pytest.raises(SystemExit, run)",
    ],
)
def test_assertions_of_a_failure(body: str) -> None:
    assert asserts_failure(function_of(body))


@pytest.mark.parametrize(
    "body",
    [
        "expect(done).to_succeed()",
        "expect(done).to_have_exit_code(0)",
        "assert done.returncode == 0",
        "assert run('x') == (0, 'fine')",
        "assert count == 3",
        "assert done.ok",
        "assert not failed",
        "done.returncode != 0",
    ],
)
def test_assertions_of_no_failure(body: str) -> None:
    assert not asserts_failure(function_of(body))


def test_an_author_says_it_by_the_mark_or_the_name() -> None:
    assert says_unhappy(function_of("pass", "@pytest.mark.unhappy\ndef test_it():"))
    assert says_unhappy(function_of("pass", "def test_unhappy_without_tea():"))
    assert not says_unhappy(function_of("pass", "def test_unhappyness():"))
