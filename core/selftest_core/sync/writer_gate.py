"""The gate of writers: judges what an agent left without running it, then runs its tests, then without the command.

It implements the run's port `Gate`. Results of tests are kept like all others, so that the review finds them; runs
without the command are not.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.git.trees import TreeReader, parts_of, path_of
from selftest_core.run.plan.plan_builder import without_parameters
from selftest_core.sync.gaps import TASK_FILE, edited_block, find_gaps
from selftest_core.sync.judging import judge
from selftest_core.sync.noop import make_noop, write_programs
from selftest_core.sync.snapshot import Paths, take_snapshot
from selftest_core.verify.folders.hostile import remove_tree
from selftest_core.verify.on_arrival import ArrivalDesks, verdict_on_claim
from selftest_core.verify.schedule import Job, Order, judge_tests
from selftest_core.verify.verdicts import Result, Verdict
from selftest_core.verify.verifier import Driver, stopped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.git.object_store import ObjectStore
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.plan.plan import PlannedTest, RunPlan
    from selftest_core.sync.gaps import Gap
    from selftest_core.sync.judging import Judgement
    from selftest_core.verify.on_arrival import ArrivalDesk

_LONGEST_NOOP = 120.0
"""Seconds without a result that a test may take without its command: what it waits for will not come."""
_LAST_LINES = 12
_WORDS = {
    Verdict.FLAKY: "is flaky",
    Verdict.SKIPPED: "is skipped or expected to fail",
    Verdict.UNKNOWN: "could not be run here",
}
_READ = (".py", ".pyi", ".toml", ".json")
"""Ends of the names of changed files that are read."""
_LARGEST = 4 * 2**20
"""Bytes of a file that is read."""


def paths_of(task: PlannedTest) -> Paths:
    """Read the paths that a writer was given."""
    text = next(file.text for file in task.files if file.name == TASK_FILE)
    document = json.loads(text)
    return Paths(str(document["tutorial"]), str(document["tests"]))


class WriterGate:
    """Judges the work of one run's writers, a few at once; implements `Gate`."""

    def __init__(self, plan: RunPlan, config: Config, environ: Mapping[str, str]) -> None:
        self._plan = plan
        self._desks = ArrivalDesks(plan, config, environ)

    async def judge(self, task: PlannedTest, folder: Path, outcome: Outcome, tip: str) -> str:
        """Return why the work is refused, "" where it is not. Tests are run unless the plan says otherwise."""
        return await self._desks.hold(lambda desk: self._judge(desk, task, tip or self._plan.base))

    async def close(self) -> None:
        """End what runs, and remove the slots."""
        await self._desks.close()

    def _judge(self, desk: ArrivalDesk, task: PlannedTest, commit: str) -> str:
        paths = paths_of(task)
        store, reader = desk.store, TreeReader(desk.store)
        old, new = (desk.tree_of(oid) for oid in (self._plan.base, commit))
        differing = [path_of(parts) for parts, _ in reader.changes(old, new)]
        read = [path for path in differing if path.endswith(_READ) or path == paths.tutorial]
        large = [path for path in read if _size(store, reader, new, path) > _LARGEST]
        if large:
            return f"{large[0]} is larger than {_LARGEST // 2**20} MiB"
        before, after = (take_snapshot(store, tree, paths) for tree in (old, new))
        gap = next(gap for gap in find_gaps(before.check, paths) if gap.id == task.node_id)
        changed = {path: (_content(store, reader, old, path), _content(store, reader, new, path)) for path in read}
        found = judge(gap, before, after, changed, paths)
        if found.reasons or not self._plan.verify_on_arrival:
            return "\n".join(found.reasons)
        return "\n".join(_tested(desk, gap, found, old, new))


def _blob(reader: TreeReader, tree: str, path: str) -> str:
    """Return the blob of a regular file, "" where there is none: a link or a submodule counts as absent."""
    entry = reader.find(tree, parts_of(path))
    return entry[1] if entry is not None and entry[0] in (b"100644", b"100755") else ""


def _size(store: ObjectStore, reader: TreeReader, tree: str, path: str) -> int:
    """Return the bytes of a file without reading it: an agent may have made it as large as it likes."""
    blob = _blob(reader, tree, path)
    return int(store.git.ask("cat-file", "-s", blob)) if blob else 0


def _content(store: ObjectStore, reader: TreeReader, tree: str, path: str) -> bytes | None:
    blob = _blob(reader, tree, path)
    return store.read(blob)[1] if blob else None


def _tested(desk: ArrivalDesk, gap: Gap, found: Judgement, before: str, after: str) -> list[str]:
    """Run the gap's tests; return what speaks against them."""
    tests = (*found.new, *found.mended)
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    with desk.opened() as (verifier, results):
        collected, _ = verifier.collect(after, lambda _: files)
        if collected.is_opaque:  # another runner than pytest, which knows its tests by other names
            return []
        if collected.reason:
            raise SelftestError("its tests could not be collected here", collected.reason)
        ids = [one for one in collected.tests if without_parameters(one) in tests]
        missing = set(tests) - {without_parameters(one) for one in ids}
        if missing:
            errors = [f"{path}: {_end(said)}" for path, said in collected.errors.items()]
            return [f"{', '.join(sorted(missing))}: pytest does not collect it", *errors]
        judged = Driver(verifier, results).drive(judge_tests(after, ids, "claim"))
        results.purge([(test, after) for test, one in judged.items() if one.verdict is Verdict.FLAKY])
    wrong = []
    for test, one in judged.items():
        if one.verdict is not Verdict.GREEN:
            said = verdict_on_claim(one)
            wrong.append(
                f"{test} {_WORDS.get(one.verdict, 'does not pass when we run it')}: {said.reason}"
                + (f"\n{_end(said.output)}" if said.output else "")
            )
    return wrong or list(_without_command(desk, gap, found, ids, before, after))


def _without_command(
    desk: ArrivalDesk, gap: Gap, found: Judgement, ids: Sequence[str], before: str, after: str
) -> Iterator[str]:
    """Yield the tests that pass although the programs of the block do nothing.

    One of the happy path must fail as well where they do nothing and fail. A test that was there before is refused
    only where it has lost what it had.
    """
    texts = (
        [gap.block.text] if gap.block is not None else [block.text for one in gap.stale if (block := edited_block(one))]
    )
    for status, word in ((0, "it does nothing"), (1, "it does nothing and fails")):
        asked = [one for one in ids if not status or without_parameters(one) not in found.unhappy]
        passing = _passing(desk, after, texts, asked, status)
        old = [one for one in passing if without_parameters(one) in found.mended]
        known = _passing(desk, before, texts, old, status) if old else ()
        yield from (f"{one} passes without the command: {word}" for one in passing if one not in known)


def _passing(desk: ArrivalDesk, tree: str, texts: Sequence[str], ids: Sequence[str], status: int) -> Collection[str]:
    """Return the tests that pass on a tree while the programs of these blocks only end with `status`."""
    noop = make_noop(desk.store, tree, texts, status)
    if not noop.programs or not ids:
        return ()
    programs = desk.folder / "noop"
    if programs.exists():
        remove_tree(programs)
    write_programs(programs, noop.names, status)
    testing = replace(desk.testing, replaced=programs, timeout=min(desk.testing.timeout, _LONGEST_NOOP))
    passing: dict[str, None] = {}
    with desk.verifier(testing) as verifier:
        job = Job(noop.tree, tuple((test, 0) for test in ids), "no-op")
        for _, runs in verifier.run([(job, ids)], lambda _job, _test, _run: None, Order()):
            passing |= dict.fromkeys(test for test, run in runs.items() if run.result is Result.PASSED)
        if desk.is_stopped.is_set():
            raise stopped()
    return passing


def _end(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])
