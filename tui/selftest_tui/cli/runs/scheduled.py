"""`run --batch --scheduled`: a run from cron or CI, which is skipped where it should not start now.

It is skipped while another scheduled run of the repository is conducted, while an earlier pull request is open,
where every test rests, and where the budget of the day is used up.
A skipped run ends with 0, prints one summary with `skipped`, and writes nothing but its line in `scheduled.jsonl`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_tui.cli.command import DONE, tell, write_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from selftest_core.git.command import Place
    from selftest_core.run.history.scheduled_log import ScheduledLog
    from selftest_core.run.plan.plan import RestingTest
    from selftest_core.run.plan.preparation import Prepared
    from selftest_core.run.store import RunFolder
    from selftest_tui.cli.command import Call


def run_scheduled(
    call: Call, prepare: Callable[[], Prepared], start: Callable[[Prepared, Callable[[RunFolder], None]], int]
) -> int:
    """Start a run, or skip it. `start` conducts a prepared one, calls back once its folder is made, and returns the
    exit status."""
    from selftest_core.git.command import find_place
    from selftest_core.run.history.resting import EverythingRestsError
    from selftest_core.run.history.scheduled_log import scheduled_log
    from selftest_core.run.overview import open_run
    from selftest_core.schema.model import instant

    place = find_place(call.cwd, call.environ)
    with scheduled_log(place.top) as log:
        reason = _skip_reason(place, log, call)
        if reason:
            return _skip(reason, log)

        unfinished = open_run(call.environ, place.top)
        if unfinished is not None and unfinished.is_conducted():
            tell(f"run {unfinished.run} is being conducted, too")
        elif unfinished is not None:
            tell(f"run {unfinished.run} has not ended: `selftest-tui resume {unfinished.run}` continues it")

        def note(folder: RunFolder) -> None:
            log.write({"at": instant(time.time()), "run": folder.run})

        try:
            prepared = prepare()
        except EverythingRestsError as error:
            return _skip(f"{error.title[0].lower()}{error.title[1:]}. {error.detail}", log, error.resting)
        reason = _day_budget_reason(prepared)
        if reason:
            return _skip(reason, log)
        return start(prepared, note)


def check_scheduled(call: Call) -> None:
    """Raise UsageError where a screen would be shown, or nothing may be written."""
    if call.arguments.dry_run:
        raise UsageError("--scheduled and --dry-run do not go together", "", "Leave --scheduled out to see the plan.")
    if not call.arguments.batch:
        hint = "Add --batch, or leave --scheduled out to be asked on the screen."
        raise UsageError("--scheduled needs --batch", "Nobody is there to be asked.", hint)


def _skip_reason(place: Place, log: ScheduledLog, call: Call) -> str:
    """Return why no run should start now, empty where one should. Raises UnknownPullRequestsError."""
    from selftest_core.git.command import Git
    from selftest_core.schedule.open_pull_requests import find_open_pull_request

    if not log.has_lock:
        return "another scheduled run of this repository is conducted"
    if not call.config.skip_while_open:
        return ""
    tell("asking gh for open pull requests")
    found = find_open_pull_request(place, Git(place.git_dir, call.environ), call.environ)
    return "" if found is None else f"pull request {found.number} of an earlier run is open: {found.url}"


def _day_budget_reason(prepared: Prepared) -> str:
    """Return which budget of the day does not pay for one more agent, empty where all do."""
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import begin
    from selftest_core.run.spending import used_up_reason

    day = prepared.offer.estimates.day
    return "" if day is None else used_up_reason(begin(prepared.plan), Policy(), others=day.spent)


def _skip(reason: str, log: ScheduledLog, resting: Sequence[RestingTest] = ()) -> int:
    """Tell that this run is skipped. `resting`: all tests, where they rest; their rest counts this run, too."""
    from selftest_core.schema.model import instant
    from selftest_core.schema.run import skipped_summary

    at = time.time()
    rested = {"rested": [one.node_id for one in resting]} if resting else {}
    log.write({"at": instant(at), "skipped": reason, **rested})
    tell(f"skipped: {reason}")
    write_line(skipped_summary(reason, at, resting).model_dump(mode="json"))
    return DONE
