"""Writer of a report: one folder of pages, written again only where their facts changed.

    report/index.html              written last, so that every page that it names exists
    report/tests/, changes/, recordings/, assets/
    report/run.json, junit.xml, summary.md
    report/.pages.json             digests of the facts of each page, to write only what changed

Each file is written as a draft and renamed: a reader never sees half of one. One process writes at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from selftest_core.errors import SelftestError
from selftest_core.review.changes.inputs import home_of
from selftest_core.schema.report import ReportMarker
from selftest_recorder.report.builder import ReportBuilder
from selftest_recorder.report.junit import junit
from selftest_recorder.report.pages import assets, render_change, render_index, render_test, template_digest
from selftest_recorder.report.recordings import RecordingFacts, write_recording
from selftest_recorder.report.summary import summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from selftest_core.review.changes.inputs import Inputs
    from selftest_core.review.decisions import Decisions
    from selftest_core.run.fold import Run
    from selftest_core.run.store import RunFolder
    from selftest_core.schema.report import ReportChange, ReportDocument, ReportRecording, ReportTest

FOLDER = "report"
INDEX = "index.html"
_STATE = ".pages.json"
_VERSION = 1
_PATIENCE, _STEP = 30.0, 0.05


class ReportError(SelftestError):
    """The report cannot be written. Pages that exist stay as they were."""


class ReportWriter:
    """Writes the report of one builder, again and again. For one thread."""

    def __init__(self, builder: ReportBuilder) -> None:
        self._builder = builder
        self.folder = builder.home / FOLDER
        self._pages: dict[str, str] = {}
        self._recordings: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        """End the processes that read git's objects."""
        self._builder.close()

    @property
    def index(self) -> Path:
        """The first page."""
        return self.folder / INDEX

    def write(
        self, run: Run | None = None, decisions: Decisions | None = None, *, patience: float = _PATIENCE
    ) -> ReportDocument | None:
        """Write what changed, and return the report; None if another process writes it for longer than `patience`.

        Raises ReportError where the disk is full or read-only, and what `ReportBuilder.build` raises.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with _locked(self.folder / ".lock", patience) as is_ours:
                return self._write(run, decisions) if is_ours else None
        except OSError as error:
            hint = "Free some space, or make it writable; then `selftest-tui report` writes it again."
            raise ReportError(
                f"The report cannot be written to {self.folder}", error.strerror or str(error), hint
            ) from error

    def _write(self, run: Run | None, decisions: Decisions | None) -> ReportDocument:
        document = self._builder.build(run, decisions)
        self._load()
        for name in ("tests", "changes", "recordings", "assets"):
            (self.folder / name).mkdir(exist_ok=True)
        try:
            document = document.model_copy(update={"tests": [self._with_recordings(one) for one in document.tests]})
            for path, data in assets().items():
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                self._put(path, hashlib.sha256(data).hexdigest(), lambda data=data: data)
            # While agents arrive, each one moves others, and so their commits on the candidate branch and neighbours on
            # the list: pages follow when the run has ended.
            is_live = document.state == "live"
            changes = {change.source: _facts(change, is_live) for change in document.changes}
            tests = {test.slug: test for test in document.tests}
            clusters = {test: one.model_dump_json() for one in document.clusters for test in one.tests}
            for test, *around in _with_neighbours(document.tests):
                shown = [changes[oid] for oid in test.oids if oid in changes]
                digest = self._test_digest(test, *shown, clusters.get(test.test, ""), repr(around))
                self._put(test.page, digest, lambda test=test: self._test(document, test))
            for change, *around in _with_neighbours(document.changes):
                members = [
                    (slug, tests[slug].outcome) for one in change.members if (slug := one.slug) and slug in tests
                ]
                digest = _digest(changes[change.source], repr(members), "" if is_live else repr(around))
                self._put(change.page, digest, lambda one=change: self._change(document, one))
            self._remove_others(document)
            _replace(self.folder / "run.json", (document.model_dump_json(indent=1) + "\n").encode())
            _replace(self.folder / "junit.xml", junit(document))
            _replace(self.folder / "summary.md", summary(document).encode())
            _replace(self.folder / INDEX, render_index(document).encode("utf-8", "replace"))
        finally:
            self._save()
        return document

    def _test(self, document: ReportDocument, test: ReportTest) -> bytes:
        return render_test(self._builder.test_page(document, test)).encode("utf-8", "replace")

    def _change(self, document: ReportDocument, change: ReportChange) -> bytes:
        return render_change(self._builder.change_page(document, change)).encode("utf-8", "replace")

    def _put(self, path: str, digest: str, make: Any) -> None:
        """Write a page unless it is there with the same facts."""
        if self._pages.get(path) == digest and (self.folder / path).is_file():
            return
        self._pages.pop(path, None)
        _replace(self.folder / path, make())
        self._pages[path] = digest

    def _test_digest(self, test: ReportTest, *more: str) -> str:
        stamps = [
            _stamp(self._builder.path_of(text.path))
            for text in (test.transcript, test.conversation)
            if text is not None
        ]
        return _digest(test.model_dump_json(), repr(stamps), *more)

    def _with_recordings(self, test: ReportTest) -> ReportTest:
        """Write the scripts of a test's recordings, and return it with what they hold."""
        if not test.recordings:
            return test
        return test.model_copy(update={"recordings": [self._recorded(one) for one in test.recordings]})

    def _recorded(self, recording: ReportRecording) -> ReportRecording:
        script = f"recordings/{recording.name}.js"
        source = self._builder.path_of(recording.path)
        stamp = _stamp(source)
        known = self._recordings.get(script)
        if known is None or known["stamp"] != stamp or not (self.folder / script).is_file():
            found = write_recording(source, self.folder / script, recording.name)
            known = self._recordings[script] = {"stamp": stamp, "facts": asdict(found)}
        facts = RecordingFacts(**known["facts"])
        return recording.model_copy(
            update={
                "script": script if facts.is_written else None,
                "seconds": facts.seconds,
                "cols": facts.cols,
                "rows": facts.rows,
                "markers": [ReportMarker(at=at, label=label) for at, label in facts.markers],
                "problem": facts.problem,
            }
        )

    def _remove_others(self, document: ReportDocument) -> None:
        """Remove pages of what is not in the report any more."""
        pages = {*assets(), *(test.page for test in document.tests), *(change.page for change in document.changes)}
        scripts = {f"recordings/{one.name}.js" for test in document.tests for one in test.recordings}
        for known, wanted in ((self._pages, pages), (self._recordings, scripts)):
            for path in known.keys() - wanted:
                del known[path]
                with contextlib.suppress(OSError):
                    (self.folder / path).unlink(missing_ok=True)

    def _load(self) -> None:
        """Read which pages are there, written by this process or another one; of other templates, none count."""
        self._pages, self._recordings = {}, {}
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            said = json.loads((self.folder / _STATE).read_text(encoding="utf-8"))
            if said["version"] == _VERSION and said["templates"] == template_digest():
                self._pages = {str(path): str(digest) for path, digest in said["pages"].items()}
                for path, one in said["recordings"].items():
                    RecordingFacts(**one["facts"])
                    self._recordings[str(path)] = {"stamp": one["stamp"], "facts": one["facts"]}

    def _save(self) -> None:
        state = {
            "version": _VERSION, "templates": template_digest(), "pages": self._pages, "recordings": self._recordings,
        }  # fmt: skip
        with contextlib.suppress(OSError):  # without it all pages are written anew
            _replace(self.folder / _STATE, json.dumps(state).encode())


class RunReporter:
    """Writes the report of a run for its conductor: a `selftest_core.run.reporting.Reporter`."""

    def __init__(self, folder: RunFolder, environ: Mapping[str, str]) -> None:
        self._writer = ReportWriter(ReportBuilder(folder.path, environ, folder=folder))

    def write(self, run: Run) -> None:
        """Write what changed; not now if another process writes the report. Raises ReportError."""
        self._writer.write(run, patience=0.0)

    def close(self) -> None:
        """End the processes that read git's objects."""
        self._writer.close()


def write_run_report(folder: RunFolder, environ: Mapping[str, str], say: Callable[[str], None]) -> str | None:
    """Write the report of a run, and return its path; None where there is none. `say` gets the error, in one line."""
    try:
        with ReportBuilder(folder.path, environ, folder=folder) as builder:
            ReportWriter(builder).write()
    except SelftestError as error:
        say(f"{error.title}: {error.detail}" if error.detail else error.title)
    return report_path(folder.path)


def write_review_report(
    inputs: Inputs,
    name: str,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    decisions: Decisions | None = None,
) -> str | None:
    """Write the report of a review, that of its run where it is of one; else as `write_run_report`."""
    home = home_of(inputs, name)
    try:
        with ReportBuilder(home, environ, folder=inputs.folder, inputs=inputs) as builder:
            ReportWriter(builder).write(decisions=decisions)
    except SelftestError as error:
        say(f"{error.title}: {error.detail}" if error.detail else error.title)
    return report_path(home)


def report_path(home: Path) -> str | None:
    """Return the path of a run's or review's report, None where there is none."""
    index = home / FOLDER / INDEX
    return str(index) if index.is_file() else None


@contextlib.contextmanager
def _locked(path: Path, patience: float) -> Iterator[bool]:
    """Lock the folder of a report; yields False if another process has it for longer than `patience` seconds."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    yield False
                    return
                time.sleep(_STEP)  # a lock without a deadline could wait for ever; flock has none
        yield True
        fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def _replace(path: Path, data: bytes) -> None:
    """Write a file as a draft and rename it. Raises OSError, and the old file stays."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _with_neighbours[T: (ReportTest, ReportChange)](items: list[T]) -> Iterator[tuple[T, str, str]]:
    """Yield each item with the pages before and after it, to which its page links."""
    pages = ["", *(one.page for one in items), ""]
    for number, one in enumerate(items):
        yield one, pages[number], pages[number + 2]


def _facts(change: ReportChange, is_live: bool) -> str:
    return change.model_dump_json(exclude={"commit"} if is_live else None)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def _stamp(path: Path) -> list[int]:
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]
