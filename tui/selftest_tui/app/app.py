"""The program with a screen: one app, one fleet screen, themes, and the keys that work everywhere."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from selftest_tui.app.colours import ColouredApp
from selftest_tui.app.hangup import SECONDS_FOR_THE_SCREEN, ending_with_the_terminal
from selftest_tui.fleet.screen import FleetScreen
from selftest_tui.shared import problems
from selftest_tui.shared.keyed import KeyedScreen
from selftest_tui.shared.keys import APP, BY_APP_ACTION, bindings_of
from selftest_tui.shared.notices import Notices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.binding import BindingType
    from textual.screen import Screen

    from selftest_core.config import Config, Notify
    from selftest_core.errors import SelftestError
    from selftest_core.fleet.view import FleetView
    from selftest_core.review.changes.inputs import Request
    from selftest_core.run.plan.offer import Offer
    from selftest_core.run.plan.preparation import Prepared
    from selftest_core.run.store import RunFolder
    from selftest_tui.fleet.feed import MakeWatch, OutcomesOf, Watch
    from selftest_tui.fleet.messages import ReplayWanted, ReviewFailed, ReviewWanted, RunWanted
    from selftest_tui.review.screen import ReviewScreen
    from selftest_tui.run.feed import OutcomeReader
    from selftest_tui.run.screen import RunScreen
    from selftest_tui.run.start import StartScreen

TITLE = "selftest-tui"
DARK = "textual-dark"


class FleetApp(ColouredApp):
    """Shows the fleet that `make_watch`'s watch publishes. Returns when the person quits; agents go on."""

    TITLE = TITLE
    # The first screen's, read with all else: a screen that brings its own lets everything be parsed a second time.
    CSS_PATH = "../fleet/screen.tcss"
    # The palette is opened by a row of the key table, without the priority that would take ctrl+p from an agent.
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(APP)]

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
        notify: Notify = "off",
        notify_command: str = "",
    ) -> None:
        super().__init__(environ, theme)
        self.review_error: SelftestError | None = None
        self.way_back = ""
        """How to come back to the screen that was left, in words for the shell; empty where it says itself."""
        self._first_review = review
        self._reviews: dict[Request, ReviewScreen] = {}
        self._first_run = run
        self._start = start
        self._runs: dict[Path, RunScreen] = {}
        notices = Notices(notify, notify_command, environ, folder, self.write_to_terminal, self._say_from_thread)
        self.fleet = FleetScreen(
            make_watch, environ, folder=folder, clock=clock, place=place, notices=notices,
            outcomes_of=_outcomes_of(environ),
        )  # fmt: skip
        self._wanted_theme = theme
        self._was_warned = False

    def _say_from_thread(self, text: str) -> None:
        self.fleet.call_later(self.fleet.say, text, "Notification", "warning")

    def get_default_screen(self) -> Screen[None]:
        """The fleet is below all else: over an empty screen of Textual's it would be laid out and painted twice."""
        return self.fleet

    def on_mount(self) -> None:
        """Colours first, then what was asked for over the fleet."""
        self.apply_theme()
        if self._start is not None:
            from selftest_tui.run.start import StartScreen

            self.push_screen(StartScreen(*self._start))
        elif self._first_run is not None:
            self.show_run(self._first_run)
        elif self._first_review is not None:
            self.open_review(self._first_review)
        if self._wanted_theme and self._wanted_theme not in self.available_themes:
            known = ", ".join(sorted(self.available_themes))
            self.fleet.say(f"Known are: {known}.", f"No theme is called {self._wanted_theme}", "warning")
        if self.preferences.notice:
            self.fleet.say(self.preferences.notice, "Preferences", "warning")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """ctrl+c belongs to a field of text that copies with it, and to an agent that is typed into."""
        if action == "press" and parameters == ("interrupt",):
            return not (self.main_screen.is_typing or hasattr(self.focused, "action_copy"))
        return super().check_action(action, parameters)

    def show_run(self, folder: RunFolder) -> None:
        """Go to a run's screen. It is kept, so that it is found again as it was left."""
        from selftest_tui.run.screen import RunScreen  # not needed for the fleet

        screen = self._runs.get(folder.path)
        if screen is None:
            screen = self._runs[folder.path] = RunScreen(folder, self.fleet, clock=self.fleet.clock)
            self.install_screen(screen, f"run {folder.path}")
        if screen not in self.screen_stack:
            self.push_screen(screen)

    def on_run_wanted(self, event: RunWanted) -> None:
        """A run was asked for."""
        self.show_run(event.folder)

    def open_review(self, request: Request) -> None:
        """Go to a review's screen. It is kept, so that it is found again as it was left."""
        from selftest_tui.review.screen import ReviewScreen  # not needed for the fleet

        screen = self._reviews.get(request)
        if screen is None:
            screen = self._reviews[request] = ReviewScreen(request, self.fleet, clock=self.fleet.clock)
            self.install_screen(screen, f"review {len(self._reviews)}")
        if screen not in self.screen_stack:
            self.push_screen(screen)

    def on_review_wanted(self, event: ReviewWanted) -> None:
        """A review was asked for."""
        self.open_review(event.request)

    def on_review_failed(self, event: ReviewFailed) -> None:
        """It could not be opened: its screen goes, and what was asked for on the command line is told there."""
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
    ) -> None:
        """Play a recording over what is shown now; esc comes back. As `ReplayWanted` says."""
        from selftest_tui.replay.screen import ReplayScreen  # not needed for the fleet

        environ = self.fleet.environ
        self.push_screen(ReplayScreen(path, environ, at=at, title=title, marker=marker, follows=follows))

    def on_replay_wanted(self, event: ReplayWanted) -> None:
        """A recording was asked for."""
        self.open_replay(event.path, event.at, event.title, marker=event.marker, follows=event.follows)

    def on_start_screen_begun(self, event: StartScreen.Begun) -> None:
        """What was offered has begun: the question goes, its run comes."""
        self.pop_screen()
        self.show_run(event.folder)

    @property
    def main_screen(self) -> KeyedScreen:
        """The screen on top that is no dialog."""
        return next((one for one in reversed(self.screen_stack) if isinstance(one, KeyedScreen)), self.fleet)

    def action_press(self, action: str) -> None:
        """A key that works everywhere was pressed."""
        main, top = self.main_screen, self.screen
        if action == "leave" or (action == "interrupt" and self.screen is main):
            self._leave()
        elif action == "interrupt":
            self.screen.dismiss(None)
        elif action == "help":
            self._help(main)
        elif action == "palette":
            self._palette()
        elif action == "theme":
            self.action_change_theme()
        elif action == "no_quit":
            main.toast(problems.refusal("ctrl+q", f"It {BY_APP_ACTION['no_quit'].help}. q quits."))
        if BY_APP_ACTION[action].opens and self.screen is not top:
            self.hold_keys(top, None, top.focused)

    def _help(self, main: KeyedScreen) -> None:
        from selftest_tui.shared.dialogs.help import Page, help_page  # not needed for the first frame

        if not isinstance(self.screen, Page):
            self.push_screen(help_page(main.KEYS, main.symbols(), main.filter_forms()))

    def _palette(self) -> None:
        from textual.command import CommandPalette

        from selftest_tui.app.palette import Actions

        self.push_screen(CommandPalette(providers=[Actions], placeholder="What shall be done?"))

    def _leave(self) -> None:
        """Quit; while an act is under way only when asked twice."""
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
        """How many changes of the review that was asked for on the command line still need a person."""
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
"""Makes a run and starts its conductor, in a thread; says what it is doing."""


def run(
    config: Config,
    environ: Mapping[str, str],
    *,
    run: RunFolder | None = None,
    seconds_behind: float = SECONDS_FOR_THE_SCREEN,
    is_kept: bool = True,
) -> int:
    """Open the screen here, of `run` where one is given, and return the exit status once the person has quit.

    `seconds_behind`: what the caller may take to end after this, where the terminal is gone. `is_kept`: the run is
    there afterwards, so who leaves its screen is told how to come back.
    """
    return _run(config, environ, run=run, seconds_behind=seconds_behind, is_kept=is_kept)


def run_start(prepared: Prepared, config: Config, environ: Mapping[str, str]) -> int:
    """Show what a run would do. After a yes it is begun and shown; without one nothing is started."""
    from selftest_core.run.plan.preparation import begin
    from selftest_tui.run.conducting import start_conductor

    made: list[RunFolder] = []

    def begin_and_conduct(say: Callable[[str], None]) -> RunFolder:
        if not made:  # else only its conductor could not be started
            say("Making the private clone …")
            made.append(begin(prepared, environ))
        say(f"Starting the conductor of {made[0].run} …")
        start_conductor(made[0], environ)
        return made[0]

    return _run(config, environ, start=(prepared.offer, begin_and_conduct))


def run_review(request: Request, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """Review on the screen. Returns 0 where nothing is left open, else 1; raises what hinders it from being opened."""
    app = _make(config, environ, cwd, review=request)
    _show(app)
    if app.review_error is not None:
        raise app.review_error
    return app.return_code or (1 if app.open_changes else 0)


def _run(
    config: Config,
    environ: Mapping[str, str],
    *,
    run: RunFolder | None = None,
    start: tuple[Offer, Begin] | None = None,
    seconds_behind: float = SECONDS_FOR_THE_SCREEN,
    is_kept: bool = True,
) -> int:
    app = _make(config, environ, Path.cwd(), run=run, start=start)
    _show(app, seconds_behind)
    if is_kept and app.way_back:
        sys.stderr.write(f"{app.way_back}\n")
    return app.return_code or 0


def _show(app: FleetApp, seconds_behind: float = SECONDS_FOR_THE_SCREEN) -> None:
    """Until the person quits; then what the watch has running ends, with no screen in the way."""
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
) -> FleetApp:
    from selftest_core.fleet.watch.fleet_watch import FleetWatch  # not needed to drive the screen without agents
    from selftest_core.fleet.watch.poll_schedule import watch_settings

    settings = watch_settings(config, folder)

    def make_watch(publish: Callable[[FleetView], None]) -> Watch:
        return FleetWatch(settings, environ, publish)

    return FleetApp(
        make_watch, environ, folder=folder, theme=config.theme, run=run, start=start, review=review,
        notify=config.notify, notify_command=config.notify_command,
    )  # fmt: skip
