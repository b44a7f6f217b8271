"""Pages of a report as HTML: everything that an agent wrote is escaped, and nothing is loaded from a network."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from selftest_core.conversation.conversation import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from jinja2 import Environment

    from selftest_core.schema.report import ReportDocument
    from selftest_recorder.report.facts import ChangePage, TestPage


def render_index(report: ReportDocument) -> str:
    """Render the overview."""
    return _render("index.html", root="", report=report)


def render_test(page: TestPage) -> str:
    """Render the page of one test."""
    return _render("test.html", root="../", report=page.report, page=page, test=page.test)


def render_change(page: ChangePage) -> str:
    """Render the page of one change."""
    return _render("change.html", root="../", report=page.report, page=page, change=page.change)


@cache
def assets() -> dict[str, bytes]:
    """Return the files that all pages share, by their path in the report."""
    return {path: one.read_bytes() for path, one in _files("assets")}


@cache
def template_digest() -> str:
    """Return a digest of the templates: pages of other templates are written anew."""
    made = hashlib.sha256()
    for path, one in _files("templates"):
        made.update(path.encode() + b"\0" + one.read_bytes())
    return made.hexdigest()[:16]


def _files(folder: str) -> list[tuple[str, Traversable]]:
    """List the files of this package below a folder, by their path."""
    return sorted(_below(files("selftest_recorder.report").joinpath(folder), folder), key=lambda one: one[0])


def _below(folder: Traversable, place: str) -> Iterator[tuple[str, Traversable]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _below(one, f"{place}/{one.name}")
        else:
            yield f"{place}/{one.name}", one


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("selftest_recorder.report", "templates")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, finalize=_finalized, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


def _finalized(value: Any) -> Any:
    """Remove escape sequences and invisible characters from a text that a template prints; jinja2 escapes it then."""
    return harmless(value) if type(value) is str else value


def _render(template: str, **facts: Any) -> str:
    return _environment().get_template(template).render(**facts)
