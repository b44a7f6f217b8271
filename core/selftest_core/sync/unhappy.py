"""Tests of an unhappy path, recognised in any project by the syntax of the test. Pure.

An unhappy path is what happens where something is wrong: bad input, a refusal, a tool that fails. A test shows one if
it asserts a failure (`to_fail()`, `pytest.raises`, an exit status that is not 0), or if its author says so: the mark
`unhappy`, or that word in its name. The author's word is taken as it is: no syntax proves it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.tutorial.citations import TestFunction

WORD = "unhappy"
_FAILING = frozenset({"to_fail", "raises", "assertRaises", "assertRaisesRegex", "fails", "CalledProcessError"})
_STATUS_CALLS = frozenset({"to_have_exit_code", "to_have_exit_status", "to_exit_with"})
_STATUSES = frozenset({"returncode", "exit_code", "exit_status", "exitcode", "status", "code", "rc"})


def says_unhappy(function: TestFunction) -> bool:
    """True if its author calls a test one of an unhappy path: by the mark `unhappy`, or by its name."""
    return WORD in function.name.lower().split("_") or any(
        WORD in (getattr(node, "attr", ""), getattr(node, "id", ""))
        for mark in function.decorator_list
        for node in ast.walk(mark)
    )


def asserts_failure(function: TestFunction) -> bool:
    """True if a test asserts that something fails: an exception, or an exit status that is not 0."""
    return any(_is_failing(node) for node in ast.walk(function))


def _is_failing(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=arguments):
            is_status = name in _STATUS_CALLS and bool(arguments) and _is_nonzero(arguments[0])
            return name in _FAILING or is_status
        case ast.ExceptHandler(type=kind) if kind is not None:
            return any(name in _FAILING for name in _names(kind))
        case ast.Assert(test=test):
            return any(_compares_to_failure(one) for one in ast.walk(test))
        case _:
            return False


def _compares_to_failure(node: ast.AST) -> bool:
    """True for `status != 0`, `status == 2`, `status > 0`, `(status, output) == (2, …)`, and these the other way."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            sides = [(left, right), (right, left)]
            if isinstance(op, ast.NotEq | ast.Gt | ast.IsNot):
                return any(_is_status(status) and _is_zero(number) for status, number in sides)
            if isinstance(op, ast.Eq | ast.Is):
                return any(
                    (_is_status(status) and _is_nonzero(number)) or _is_failed_pair(number) for status, number in sides
                )
            return False
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return any(name in ("ok", "success", "succeeded") for name in _last_name(operand))
        case _:
            return False


def _is_status(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in _STATUSES
    return any(name in _STATUSES for name in _last_name(node))


def _is_failed_pair(node: ast.expr) -> bool:
    """True for a literal such as `(1, "refused")`: a status first, and what was printed."""
    return isinstance(node, ast.Tuple) and len(node.elts) > 1 and _is_nonzero(node.elts[0])


def _last_name(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            yield name
        case ast.Call(func=function):
            yield from _last_name(function)
        case _:
            return


def _names(node: ast.expr) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name | ast.Attribute):
            yield from _last_name(one)


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and not isinstance(node.value, bool)


def _is_nonzero(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return (
        isinstance(value, ast.Constant)
        and isinstance(value.value, int)
        and not isinstance(value.value, bool)
        and value.value != 0
    )
