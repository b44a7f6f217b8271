"""The app: the fleet at the bottom, other screens over it. It opens screens, and quits."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_tui.app.hangup import SECONDS_FOR_THE_SCREEN, ending_with_the_terminal
from selftest_tui.app.keyed_app import KeyedApp
from selftest_tui.fleet.screen import FleetScreen
from selftest_tui.shared import problems
from selftest_tui.shared.keyed import KeyedScreen
from selftest_tui.shared.keys import shown
from selftest_tui.shared.notices import Notices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.screen import Screen

    from selftest_core.config import Config, Notify
    from selftest_core.errors import SelftestError
    from selftest_core.fleet.view import FleetView
    from selftest_core.review.changes.inputs import Request
    from selftest_core.run.plan.offer import Offer
    from selftest_core.run.plan.preparation import Prepared
    from selftest_core.run.store import RunFolder
    from selftest_tui.fleet.feed import MakeWatch, OutcomesOf, Watch
    from selftest_tui.fleet.messages import (
        FleetWanted,
        ReplayWanted,
        ReviewFailed,
        ReviewWanted,
        RunWanted,
        StartWanted,
    )
    from selftest_tui.review.screen import ReviewScreen
    from selftest_tui.run.feed import OutcomeReader
    from selftest_tui.run.screen import RunScreen
    from selftest_tui.run.start import StartScreen
    from selftest_tui.search.screen import SearchScreen
    from selftest_tui.shared.split import SplitScreen


SECONDS_BEHIND = 0.8
"""Until the fleet below a review looks for agents: mngr takes a core for seconds, and the review is waited for."""


class FleetApp(KeyedApp):
    """Shows the fleet that the watch of `make_watch` publishes. Agents continue when it ends."""

    # The style sheet of the first screen: one of its own would make Textual parse everything a second time.
    CSS_PATH = "../fleet/screen.tcss"

    def __init__(
        self,
        make_watch: MakeWatch,
        environ: Mapping[str, str],
        *,
        folder: Path,
        theme: str = "",
        clock: Callable[[], float] = time.time,
        place: str | None = None,
        run: RunFolder | None = None,
        start: tuple[Offer, Begin] | None = None,
        review: Request | None = None,
        is_integrating: bool = False,
        notify: Notify = "off",
        notify_command: str = "",
        config: Config | None = None,
    ) -> None:
        super().__init__(environ, theme, config)
        opened = "review" if review is not None else "run" if run is not None else ""
        if opened:  # a style sheet that comes later would make Textual parse all of them a second time
            self.css_path.append(Path(__file__).resolve().parents[1] / opened / "screen.tcss")
        self._config = config
        self.review_error: SelftestError | None = None
        self.way_back = ""
        """The command that opens the left screen again, as a sentence for the shell; empty if none is needed."""
        self._first_review = review
        self._is_integrating = is_integrating
        self._reviews: dict[Request, ReviewScreen] = {}
        self._first_run = run
        self._start = start
        self._runs: dict[Path, RunScreen] = {}
        self._searches: dict[Path, SearchScreen] = {}
        notices = Notices(notify, notify_command, environ, folder, self.write_to_terminal, self._say_from_thread)
        self.fleet = FleetScreen(
            make_watch, environ, folder=folder, clock=clock, place=place, notices=notices,
            outcomes_of=_outcomes_of(environ), seconds_behind=SECONDS_BEHIND if review is not None else 0.0,
        )  # fmt: skip
        self._wanted_theme = theme
        self._was_warned = False

    def _say_from_thread(self, text: str) -> None:
        self.fleet.call_later(self.fleet.say, text, "Notification", "warning")

    def get_default_screen(self) -> Screen[None]:
        """Return the fleet screen; on top of Textual's empty screen it would be laid out and painted twice."""
        return self.fleet

    def on_mount(self) -> None:
        """Apply the theme, then open the requested screen over the fleet."""
        self.apply_theme()
        if self._start is not None:
            from selftest_tui.run.start import StartScreen

            self.push_screen(StartScreen(*self._start))
        elif self._first_run is not None:
            self.show_run(self._first_run)
        elif self._first_review is not None:
            self.open_review(self._first_review)
            self._reviews[self._first_review].is_integration_wanted = self._is_integrating
        if self._wanted_theme and self._wanted_theme not in self.available_themes:
            known = ", ".join(sorted(self.available_themes))
            self.fleet.say(f"Known are: {known}.", f"No theme is called {self._wanted_theme}", "warning")
        if self.preferences.notice:
            self.fleet.say(self.preferences.notice, "Preferences", "warning")
        self.tell_of_wrong_keys()

    def show_run(self, folder: RunFolder, test: str = "") -> None:
        """Open a run's screen, on a test. It is kept, so that it comes back as it was left."""
        from selftest_tui.run.screen import RunScreen  # not needed for the fleet

        screen = self._runs.get(folder.path)
        if screen is None:
            screen = self._runs[folder.path] = RunScreen(folder, self.fleet, clock=self.fleet.clock)
            self.install_screen(screen, f"run {folder.path}")
        self._bring_up(screen)
        if test:
            screen.go_to_test(test)

    def _bring_up(self, screen: Screen[None]) -> None:
        """Show a screen that is kept: over the present one, or by closing what lies over it."""
        if screen not in self.screen_stack:
            self.push_screen(screen)
        while self.screen is not screen:
            self.pop_screen()

    def on_run_wanted(self, event: RunWanted) -> None:
        """Open a run."""
        self.show_run(event.folder, event.test)

    def on_fleet_wanted(self, event: FleetWanted) -> None:
        """Show the fleet, on an agent where it lists it."""
        self._bring_up(self.fleet)
        row = next((one for one in self.fleet.view.rows if one.agent.id == event.agent_id), None)
        if row is not None:
            self.fleet.table.go_to_key(row.key)

    def open_review(self, request: Request, commit: str = "") -> None:
        """Open a review's screen, on a commit. It is kept, so that it comes back as it was left."""
        screen = self._reviews.get(request)
        if screen is None:
            from selftest_tui.review.feed import ReviewFeed

            feed = ReviewFeed(request, self.fleet.folder, self.fleet.environ, self._config)
            feed.begin_to_open()  # git reads the branches while the screen is loaded

            from selftest_tui.review.screen import ReviewScreen  # not needed for the fleet

            screen = self._reviews[request] = ReviewScreen(feed, self.fleet, clock=self.fleet.clock)
            self.install_screen(screen, f"review {len(self._reviews)}")
        self._bring_up(screen)
        if commit:
            screen.go_to_commit(commit)

    def on_review_wanted(self, event: ReviewWanted) -> None:
        """Open a review."""
        self.open_review(event.request, event.commit)

    def on_split_screen_search_wanted(self, event: SplitScreen.SearchWanted) -> None:
        """Search everything that agents did. The screen is kept, so that it comes back with its hits."""
        from selftest_tui.search.screen import SearchScreen  # not needed for the fleet

        folder = event.folder or self.fleet.folder
        screen = self._searches.get(folder)
        if screen is None:
            screen = self._searches[folder] = SearchScreen(folder, self.fleet.environ)
            self.install_screen(screen, f"search {len(self._searches)}")
        self._bring_up(screen)
        if screen.is_mounted:
            screen.open_again()

    def on_review_failed(self, event: ReviewFailed) -> None:
        """Close the screen of a review that cannot be opened; one of the command line ends the app with the error."""
        screen = self._reviews.pop(event.request, None)
        if event.request == self._first_review:
            self.review_error = event.error
            self.exit()
        elif screen is not None:
            while screen in self.screen_stack:
                self.pop_screen()
            self.uninstall_screen(screen)
            self.main_screen.show_error(event.error)

    def open_replay(
        self,
        path: Path,
        at: float | None = None,
        title: str = "",
        *,
        marker: tuple[str, ...] = (),
        follows: bool = False,
        is_ended: bool = False,
    ) -> None:
        """Play a recording over the present screen; esc returns. The arguments are those of `ReplayWanted`."""
        from selftest_tui.replay.screen import ReplayScreen  # not needed for the fleet

        environ = self.fleet.environ
        self.push_screen(
            ReplayScreen(path, environ, at=at, title=title, marker=marker, follows=follows, is_ended=is_ended)
        )

    def on_replay_wanted(self, event: ReplayWanted) -> None:
        """Play a recording."""
        self.open_replay(
            event.path, event.at, event.title, marker=event.marker, follows=event.follows, is_ended=event.is_ended
        )

    def on_start_wanted(self, event: StartWanted) -> None:
        """Ask before a run that another screen wants."""
        from selftest_tui.run.start import StartScreen

        prepared = event.prepared
        self.push_screen(StartScreen(prepared.offer, beginning(prepared, self.fleet.environ)))

    def on_start_screen_begun(self, event: StartScreen.Begun) -> None:
        """Replace the question before a run by the run; behind another screen, return to that one."""
        self.pop_screen()
        if self._start is not None:
            self.show_run(event.folder)
        else:
            self.main_screen.say(
                f"Its agents come and go here; {shown('fleet.run', 'w')} shows the run.",
                f"Run {event.folder.run} has begun",
            )

    def on_start_screen_refused(self, event: StartScreen.Refused) -> None:
        """Leave the question before a run: return to the screen that asked, else leave the program."""
        if self._start is not None:
            self.exit()
        else:
            self.pop_screen()

    @property
    def main_screen(self) -> KeyedScreen:
        """The topmost screen that is not a dialog."""
        return next((one for one in reversed(self.screen_stack) if isinstance(one, KeyedScreen)), self.fleet)

    def leave(self) -> None:
        """Quit; while an action runs, only when asked twice."""
        under_way = [words for one in self.screen_stack if isinstance(one, KeyedScreen) for words in one.under_way]
        if under_way and not self._was_warned:
            self._was_warned = True
            why = f"{'; '.join(under_way)}: quitting now cuts that short. Once more quits."
            self.main_screen.toast(problems.refusal("Not yet", why))
            return
        self.way_back = self.main_screen.way_back
        self.exit()

    @property
    def open_changes(self) -> int:
        """The number of undecided changes in the review of the command line."""
        screen = self._reviews.get(self._first_review) if self._first_review is not None else None
        return screen.state.open if screen is not None and screen.state is not None else 0


def _outcomes_of(environ: Mapping[str, str]) -> OutcomesOf:
    """Read outcomes for the fleet. What reads runs is loaded with the first of them, in the thread."""
    made: list[OutcomeReader] = []

    def read(runs: frozenset[str]) -> Mapping[str, str]:
        from selftest_tui.run.feed import OutcomeReader
        from selftest_tui.run.lines import outcome_of

        if not made:
            made.append(OutcomeReader(environ, outcome_of))
        return made[0].read(runs)

    return read


type Begin = Callable[[Callable[[str], None]], RunFolder]
"""Makes a run and starts its conductor, in a thread; reports each step in words."""


def run_start(prepared: Prepared, config: Config, environ: Mapping[str, str]) -> int:
    """Show the plan of a run. If the user confirms it, start the run and show it; otherwise start nothing."""
    return run(config, environ, start=(prepared.offer, beginning(prepared, environ)))


def beginning(prepared: Prepared, environ: Mapping[str, str]) -> Begin:
    """Return what makes the run and starts its conductor; called again, it starts only the conductor."""
    made: list[RunFolder] = []

    def begin_and_conduct(say: Callable[[str], None]) -> RunFolder:
        from selftest_core.run.plan.preparation import begin  # in its thread: not needed by the question
        from selftest_tui.run.conducting import start_conductor

        if not made:  # else only its conductor could not be started
            say("Making the private clone …")
            made.append(begin(prepared, environ))
        say(f"Starting the conductor of {made[0].run} …")
        start_conductor(made[0], environ)
        return made[0]

    return begin_and_conduct


def run_review(
    request: Request, config: Config, environ: Mapping[str, str], cwd: Path, *, is_integrating: bool = False
) -> int:
    """Review on the screen. Returns 0 if nothing is left open, else 1. Raises SelftestError if it cannot open.

    `is_integrating`: show the plan of agents for all conflicts first.
    """
    app = _make(config, environ, cwd, review=request, is_integrating=is_integrating)
    _show(app)
    if app.review_error is not None:
        raise app.review_error
    return app.return_code or (1 if app.open_changes else 0)


def run(
    config: Config,
    environ: Mapping[str, str],
    *,
    run: RunFolder | None = None,
    start: tuple[Offer, Begin] | None = None,
    seconds_behind: float = SECONDS_FOR_THE_SCREEN,
    is_kept: bool = True,
) -> int:
    """Open the screen in this folder, on `run` where one is given; returns the exit status once the user has quit.

    `start`: the question before a run, and what begins it. `seconds_behind`: the time that the caller needs to end
    after this, where the terminal is gone. `is_kept`: the run exists afterwards, so how to come back is printed.
    """
    app = _make(config, environ, Path.cwd(), run=run, start=start)
    _show(app, seconds_behind)
    if is_kept and app.way_back:
        sys.stderr.write(f"{app.way_back}\n")
    return app.return_code or 0


def _show(app: FleetApp, seconds_behind: float = SECONDS_FOR_THE_SCREEN) -> None:
    """Run the app until the user quits; then end the programs that the watch has started."""
    try:
        with ending_with_the_terminal(seconds_behind):
            app.run()
    finally:
        app.fleet.wait_for_end()


def _make(
    config: Config,
    environ: Mapping[str, str],
    folder: Path,
    *,
    run: RunFolder | None = None,
    start: tuple[Offer, Begin] | None = None,
    review: Request | None = None,
    is_integrating: bool = False,
) -> FleetApp:
    from selftest_core.fleet.watch.fleet_watch import FleetWatch  # not needed to drive the screen without agents
    from selftest_core.fleet.watch.poll_schedule import watch_settings

    settings = watch_settings(config, folder)

    def make_watch(publish: Callable[[FleetView], None]) -> Watch:
        return FleetWatch(settings, environ, publish)

    return FleetApp(
        make_watch, environ, folder=folder, theme=config.theme, run=run, start=start, review=review,
        is_integrating=is_integrating, notify=config.notify, notify_command=config.notify_command, config=config,
    )  # fmt: skip
