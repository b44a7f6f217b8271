"""The kind of a change: as its author states it, checked against the paths that it touches.

An implementation fix is reviewed by itself; tests, docs and build files share a commit. A wrong guess must err towards
implementation: a commit that calls itself a test but touches source is mixed, and counts as implementation.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(StrEnum):
    """The kinds of changes."""

    IMPLEMENTATION = "implementation"
    TEST = "test"
    DOCS = "docs"
    BUILD = "build"
    MIXED = "mixed"

    @property
    def is_implementation(self) -> bool:
        """True for kinds that get a commit of their own."""
        return self in (Kind.IMPLEMENTATION, Kind.MIXED)


_STATED = {
    "FIX_IMPL": Kind.IMPLEMENTATION,
    "IMPLEMENTATION": Kind.IMPLEMENTATION,
    "IMPROVE_TEST": Kind.TEST,
    "FIX_TEST": Kind.TEST,
    "CREATE_TEST": Kind.TEST,
    "TEST": Kind.TEST,
    "TESTS": Kind.TEST,
    "FIX_TUTORIAL": Kind.DOCS,
    "DOCS": Kind.DOCS,
    "BUILD": Kind.BUILD,
    "CI": Kind.BUILD,
}
_TAG = re.compile(r"\[([A-Za-z_]+)\]")
_BUILD_NAMES = {
    "conftest.py", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "Makefile", "Dockerfile",
    "pytest.ini", ".pre-commit-config.yaml", ".gitignore", ".gitattributes", ".gitlab-ci.yml", "package.json",
    "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Cargo.lock", "go.sum", "uv.lock", "poetry.lock",
    "Pipfile.lock", "Gemfile.lock", "flake.lock",
}  # fmt: skip
_BUILD_FOLDERS = {".github", ".ci", ".circleci", ".gitlab", ".buildkite"}
_TEST_FOLDERS = {"test", "tests", "testing", "__tests__", "spec", "specs", "e2e"}
_DOC_FOLDERS = {"doc", "docs", "documentation"}
_DOC_SUFFIXES = {".md", ".rst", ".adoc"}
_TEST_NAME = re.compile(r"(test_.*|.*_test|.*\.test|.*\.spec)\.[A-Za-z0-9]+")


def kind_of_path(path: str) -> Kind:
    """Classify a path."""
    pure = PurePosixPath(path)
    folders = {part.lower() for part in pure.parts[:-1]}
    if pure.name in _BUILD_NAMES or folders & _BUILD_FOLDERS or re.fullmatch(r"requirements.*\.txt", pure.name):
        return Kind.BUILD
    if folders & _TEST_FOLDERS or _TEST_NAME.fullmatch(pure.name):
        return Kind.TEST
    if pure.suffix.lower() in _DOC_SUFFIXES or folders & _DOC_FOLDERS or pure.name == "tutorial.sh":
        return Kind.DOCS
    return Kind.IMPLEMENTATION


def kind_of_commit(subject: str, trailers: Iterable[tuple[str, str]], paths: Iterable[str]) -> Kind:
    """Classify a commit: by its `Kind:` trailer, else `[KIND]` at the start of its subject, else its paths."""
    touched = {kind_of_path(path) for path in paths}
    stated = next((_STATED.get(value.upper()) for name, value in trailers if name.lower() == "kind"), None)
    tag = _TAG.match(subject)
    if stated is None and tag is not None:
        stated = _STATED.get(tag[1].upper())
    touches_source = Kind.IMPLEMENTATION in touched
    if stated is not None:
        return Kind.MIXED if touches_source and not stated.is_implementation else stated
    if touches_source:
        return Kind.IMPLEMENTATION if len(touched) == 1 else Kind.MIXED
    return next((kind for kind in (Kind.TEST, Kind.DOCS, Kind.BUILD) if kind in touched), Kind.IMPLEMENTATION)
