"""Actions on agents and sessions from the screens, from the key to the result.

The exact targets are shown before an action on many agents, and before any stop or destroy. The default answer is No.
Each target has its own result, and only failed ones are retried. This module draws nothing and decides nothing about
the fleet. Blocking calls run in a thread or a process, except while the terminal is handed over, when there is no
screen. A method that fails raises SelftestError, and its caller shows the error.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Any, Literal, Protocol

from textual.app import SuspendNotSupported

from selftest_core.actions import confirm_keys as key_guard
from selftest_core.actions import send_keys as keystrokes
from selftest_core.actions.agent_actions import Act, ActResult, steer, target_of
from selftest_core.actions.attach import AttachPlan, new_window_argv, plan_attach
from selftest_core.actions.send_keys import Keystroke
from selftest_core.actions.terminal import hand_over
from selftest_core.agent_types.condition import ASKING, reason
from selftest_core.agents import State
from selftest_core.errors import RefusedError, SelftestError
from selftest_core.tools import panes
from selftest_core.tools.tmux import default_socket, own_server, tmux_environment
from selftest_tui.fleet.answering import differ, ended_tests_of, leave_answers
from selftest_tui.fleet.answers import Answer, Answers
from selftest_tui.shared.dialogs.composer import Composed, Composer
from selftest_tui.shared.dialogs.dialogs import Question, Results, target_lines
from selftest_tui.shared.present import clean, plural

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from textual.app import App

    from selftest_core.actions.agent_actions import Target
    from selftest_core.agents import AgentKey
    from selftest_core.conversation.search import ConversationHit
    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import FleetView, Row
    from selftest_core.tools.mngr import Mngr
    from selftest_core.tools.tmux import SessionRef
    from selftest_tui.fleet.answering import EndedTests

_DOING = {
    Act.MESSAGE: ("Message", "Sending to"),
    Act.STOP: ("Stop", "Stopping"),
    Act.START: ("Start", "Starting"),
    Act.DESTROY: ("Destroy", "Destroying"),
}
_WHAT_IT_MEANS = {
    Act.STOP: "What runs in it ends. Its work dir stays, and it can be started again.",
    Act.START: "Its command is run again in its work dir.",
    Act.DESTROY: "It ends, and a work dir that mngr made for it is deleted, with all that is not committed. "
    "Branches stay. This cannot be undone.",
}
_OVER = (State.STOPPED, State.DONE)
_MESSAGE_ON_A_DIALOG = (
    "A dialog is open. mngr presses Escape there before it types the message: that is taken for No, and may interrupt "
    "what the agent is doing. To answer the dialog itself, type into it, or attach."
)
_DANGEROUS_KEYS = (
    "On this tmux server mngr has bound Ctrl-Q to destroy the agent that you are attached to, and Ctrl-T to stop it, "
    "without asking. Shall both ask first from now on? (This is asked once for each server.)"
)


_HERE = 'cd -- "$1" && exec "${SHELL:-/bin/sh}"'
_THERE = 'exec "${SHELL:-/bin/sh}" -l'


class Cockpit(Protocol):
    """The screen that starts actions."""

    @property
    def app(self) -> App[Any]: ...
    @property
    def environ(self) -> Mapping[str, str]: ...
    @property
    def mngr(self) -> Mngr: ...
    @property
    def view(self) -> FleetView: ...
    def watch_refresh(self) -> None: ...
    def select_keys(self, found: Collection[AgentKey], /) -> None: ...
    def say(self, text: str, title: str = "", kind: Literal["information", "warning", "error"] = ...) -> None: ...


class Acting:
    """The actions of one screen. Its methods run in workers, so they may wait for a dialog."""

    def __init__(self, screen: Cockpit) -> None:
        self._screen = screen
        self._drafts: dict[str, str] = {}
        self._is_running: set[str] = set()

    @property
    def is_running(self) -> tuple[str, ...]:
        """The running actions that quitting would interrupt, in words."""
        return tuple(sorted(self._is_running))

    # Actions of mngr

    async def message(self, rows: Sequence[Row]) -> None:
        """Ask for a message, and send it to these agents; one of a run that has ended goes on with it."""
        over = [row.agent for row in rows if row.agent.state in _OVER]
        ended = await asyncio.to_thread(ended_tests_of, over, self._screen.environ, None) if over else ()
        going_on = {row.member.agent_id for one in ended for row in one.rows if row.member is not None}
        others = [row for row in rows if row.agent.id not in going_on]
        await self.message_to(_targets(others) if others or not ended else (), ended=ended)

    async def message_to(
        self, targets: tuple[Target, ...], more: Sequence[str] = (), *, text: str = "", ended: Sequence[EndedTests] = ()
    ) -> None:
        """Ask for a message, and send it to these targets. `more`: lines about agents that cannot be reached.

        `ended`: tests whose agents go on with it. `text`: the initial text; if empty, the last text that was written
        and not sent.
        """
        if ended:
            await self._answer(targets, more, text, ended)
            return
        mngr = self._screen.mngr
        known = self._dialogs_of(targets)
        if known and not await self._ask_to_close(known):
            return
        composed = await self._compose("message", f"Message {_named(targets)}", targets, more, text=text)
        if composed is None:
            return
        opened = [line for line in self._dialogs_of(targets) if line not in known]
        if opened and not await self._ask_to_close(opened):
            self._drafts["message"] = composed.text
            return
        await self._steer(mngr, Act.MESSAGE, targets, composed.text)

    async def _answer(
        self, targets: tuple[Target, ...], more: Sequence[str], text: str, ended: Sequence[EndedTests]
    ) -> None:
        """Ask for an answer; send it to the targets that run, and let the ended agents go on with it."""
        lines = [line for one in ended for line in one.lines]
        count = len(targets) + len(lines)
        about = ended[0].rows[0].planned.node_id if count == 1 else f"{count} agents"
        composed = await self._compose("message", f"Answer {about}", targets, [*lines, *more], text=text, count=count)
        if composed is None:
            return
        if count > 1:
            odd = "They do not all ask the same. " if differ(ended) else ""
            says = f"{odd}Each that has ended goes on in a new attempt, which takes time and tokens."
            named = [*target_lines(targets, default_socket(self._screen.environ)), *lines]
            if not await self._ask(Question(f"Answer all {count}?", says, named, yes=f"Answer all {count}")):
                self._drafts["message"] = composed.text
                self._screen.say("Nothing was sent.")
                return
        doing = f"Answering {about}"
        self._is_running.add(doing)
        self._screen.say(f"{doing} …")
        try:
            await asyncio.to_thread(leave_answers, ended, composed.text, self._screen.environ)
        except SelftestError:
            self._drafts["message"] = composed.text
            raise
        finally:
            self._is_running.discard(doing)
            self._screen.watch_refresh()
        self._screen.say(
            f"{about}: its agent goes on" if count == 1 else f"{plural(len(lines), 'agent')} go on", "Answered"
        )
        if targets:
            await self._steer(self._screen.mngr, Act.MESSAGE, targets, composed.text)

    def _dialogs_of(self, targets: Sequence[Target]) -> list[str]:
        """Return the questions of these agents' open dialogs, one line each."""
        rows = self._screen.view.by_key
        seen = [(target.name, row.condition) for target in targets if (row := rows.get(target.key)) is not None]
        return [f"{name}  {reason(found)}" for name, found in seen if found is not None and found.kind in ASKING]

    async def _ask_to_close(self, dialogs: Sequence[str]) -> bool:
        """Ask for confirmation before a message closes open dialogs."""
        title = "Close its dialog with a message?" if len(dialogs) == 1 else f"Close {len(dialogs)} dialogs?"
        yes = "Close it and send" if len(dialogs) == 1 else "Close them and send"
        return await self._ask(Question(title, _MESSAGE_ON_A_DIALOG, dialogs, yes=yes, no="Leave it open"))

    async def stop(self, rows: Sequence[Row]) -> None:
        """Stop these agents after a confirmation."""
        await self._ask_and_steer(Act.STOP, rows)

    async def start(self, rows: Sequence[Row]) -> None:
        """Start these agents after a confirmation."""
        await self._ask_and_steer(Act.START, rows)

    async def destroy(self, rows: Sequence[Row]) -> None:
        """Destroy these agents after a confirmation."""
        await self._ask_and_steer(Act.DESTROY, rows)

    async def _ask_and_steer(self, act: Act, rows: Sequence[Row]) -> None:
        mngr = self._screen.mngr
        targets = _targets(rows)
        verb = _DOING[act][0]
        title = f"{verb} {_named(targets)}?"
        lines = target_lines(targets, mngr.default_socket)
        yes = verb if len(targets) == 1 else f"{verb} all {len(targets)}"
        if await self._ask(Question(title, _WHAT_IT_MEANS[act], lines, yes=yes)):
            await self._steer(mngr, act, targets)

    async def _steer(self, mngr: Mngr, act: Act, targets: tuple[Target, ...], text: str = "") -> None:
        async def do(some: tuple[Target, ...], report: Callable[[ActResult], None]) -> tuple[ActResult, ...]:
            return await steer(mngr, act, some, text, on_result=report)

        await self._with_results(_DOING[act][1], targets, do)

    async def _with_results(
        self,
        doing: str,
        targets: tuple[Target, ...],
        do: Callable[[tuple[Target, ...], Callable[[ActResult], None]], Awaitable[tuple[ActResult, ...]]],
    ) -> None:
        """Run the action and show each result; retry the failed targets as often as the user wants."""
        while targets:
            title = f"{doing} {_named(targets)}"
            self._is_running.add(title)
            try:
                if len(targets) == 1:
                    self._screen.say(f"{title} …")
                    self._tell(await do(targets, lambda result: None))
                    return
                dialog = Results(title, targets)
                closed = self._screen.app.push_screen(dialog, wait_for_dismiss=True)
                results = await do(targets, dialog.report)
            finally:
                self._is_running.discard(title)
                self._screen.watch_refresh()
            dialog.finish()
            if closed.done():
                self._tell(results)
                return
            targets = await closed or ()

    def _tell(self, results: Sequence[ActResult]) -> None:
        """Show the results in a toast: a single one in full, of several the count and the first failure."""
        failed = [result for result in results if not result.ok]
        if not failed:
            first = results[0]
            words = first.text if len(results) == 1 else f"all {len(results)} done"
            self._screen.say(f"{_named([r.target for r in results])}: {words}", first.hint if len(results) == 1 else "")
            return
        first = failed[0]
        more = f" ({len(failed)} of {len(results)} failed)" if len(results) > 1 else ""
        lines = [first.text, first.hint]
        self._screen.say("\n".join(line for line in lines if line), f"{first.target.name}{more}", "error")

    # Typing the same text into several terminals

    async def type_into(self, rows: Sequence[Row]) -> None:
        """Ask for a text, and type it into the terminals of these agents."""
        targets = _targets(rows)
        seats = {row.key: (row.session, row.pane_id) for row in rows if row.session is not None}
        able = tuple(target for target in targets if target.key in seats)
        if not able:
            raise RefusedError("There is nothing to type into", "None of them has a terminal on this machine.")
        left_out = [
            f"not possible: {target.name} has no terminal here" for target in targets if target.key not in seats
        ]
        composed = await self._compose("type", f"Type into {_named(able)}", able, left_out, asks_enter=True)
        if composed is None:
            return

        async def do(some: tuple[Target, ...], report: Callable[[ActResult], None]) -> tuple[ActResult, ...]:
            results = []
            for target in some:
                session, pane_id = seats[target.key]
                result = await asyncio.to_thread(_type, target, session, pane_id, composed)
                report(result)
                results.append(result)
            return tuple(results)

        await self._with_results("Typing into", able, do)

    async def _compose(
        self,
        kind: str,
        title: str,
        targets: tuple[Target, ...],
        more: Sequence[str] = (),
        *,
        text: str = "",
        asks_enter: bool = False,
        count: int = 0,
    ) -> Composed | None:
        """Ask for the text to send; return None if the user cancelled.

        The targets are listed above the text field, so a written text needs no confirmation. Without a text, only Enter
        is sent; for several targets that needs a confirmation, because it may be a slip. `count`: of all that get it,
        if there are others besides the targets.
        """
        lines = target_lines(targets, default_socket(self._screen.environ))
        draft = text or self._drafts.get(kind, "")
        count = count or len(targets)
        send = f"send to all {count}" if count > 1 else "send"
        composer = Composer(title, [*lines, *more], draft, asks_enter=asks_enter, send=send)
        composed = await self._screen.app.push_screen_wait(composer)
        if composed is None:
            return None
        self._drafts[kind] = composed.text
        if not composed.is_sent:
            return None
        if len(targets) > 1 and not composed.text:
            question = Question(f"{title}?", "(Enter alone)", lines, yes=f"Send to all {len(targets)}")
            if not await self._ask(question):
                self._screen.say("Nothing was sent.")
                return None
        self._drafts.pop(kind, None)
        return composed

    async def _ask(self, question: Question) -> bool:
        answer = await self._screen.app.push_screen_wait(question)
        return answer is True  # None: the dialog was closed without an answer

    # Handing the terminal over

    async def attach(self, what: Row | TmuxSession) -> None:
        """Attach the user's terminal to a session until they detach, or open a new window in their tmux."""
        plan = await asyncio.to_thread(plan_attach, what, self._screen.environ)
        if plan.socket is None or await self._offer_guard(plan.socket, plan.warning):
            await self.go(plan)

    async def shell(self, row: Row) -> None:
        """Open a shell in the agent's work folder."""
        await self.go(await asyncio.to_thread(plan_shell, row, self._screen.environ))

    async def go(self, plan: AttachPlan) -> None:
        """Hand over the terminal, or open a window."""
        if plan.kind == "window":
            end = await asyncio.to_thread(hand_over, plan)
            self._screen.say(plan.warning)
            return
        else:
            try:
                with self._screen.app.suspend():
                    print(plan.warning, flush=True)
                    end = hand_over(plan)
            except SuspendNotSupported as error:
                raise RefusedError("The terminal cannot be handed over here", str(error)) from error
        self._screen.watch_refresh()
        if end.text:
            self._screen.say(end.text, plan.title, "warning" if end.exit_status else "information")

    async def _offer_guard(self, socket: str, warning: str) -> bool:
        """Offer to guard mngr's two dangerous keys with a confirmation, once for each server.

        Return False if the question was closed without an answer: the action is cancelled, and the next one asks again.
        """
        if await asyncio.to_thread(key_guard.is_guarded, socket, self._screen.environ):
            return True
        answers = Answers.of(self._screen.environ)
        answer = await asyncio.to_thread(answers.of_server, socket)
        if answer is None:
            question = Question(
                "Make Ctrl-Q and Ctrl-T ask first?",
                f"{_DANGEROUS_KEYS}\n\n{warning}",
                is_yes_default=True,
                leaves="back, without attaching",
            )
            wants = await self._screen.app.push_screen_wait(question)
            if wants is None:
                return False
            answer = Answer.GUARD if wants else Answer.LEAVE
            await asyncio.to_thread(answers.remember, socket, answer)
        if answer is Answer.GUARD:
            await asyncio.to_thread(key_guard.guard, socket, self._screen.environ)
        return True

    async def switch_key_guard(self, session: SessionRef | None) -> None:
        """Remove the key guard if it is set, else set it; remember the choice.

        It applies to the server of this session, or to the default server if there is no session.
        """
        environ, answers = self._screen.environ, Answers.of(self._screen.environ)
        socket = session.socket if session is not None else default_socket(environ)
        if await asyncio.to_thread(key_guard.unguard, socket, environ):
            await asyncio.to_thread(answers.remember, socket, Answer.LEAVE)
            self._screen.say("Ctrl-Q destroys and Ctrl-T stops at once in an agent's terminal.", "Key guard off")
            return
        changed = await asyncio.to_thread(key_guard.guard, socket, environ)
        await asyncio.to_thread(answers.remember, socket, Answer.GUARD)
        says = "Ctrl-Q and Ctrl-T ask first." if changed else "mngr has bound no key on this server that acts at once."
        self._screen.say(says, "Key guard on")

    # The rest

    async def copy_branch(self, row: Row) -> None:
        """Copy the branch's name to the clipboard (OSC 52, which the terminal must allow)."""
        branch = clean(row.agent.branch or "")
        if not branch:
            raise RefusedError(f"{row.agent.name} has no branch of its own", "It works in place, or mngr names none.")
        self._screen.app.copy_to_clipboard(branch)
        self._screen.say(branch, "Copied")

    async def search_panes(
        self, text: str, with_history: bool, sessions: Sequence[SessionRef], rows: Sequence[Row] = ()
    ) -> None:
        """Search the screens of these sessions and the conversations of these agents; mark agents with matches."""
        where = "the scrollback of " if with_history else ""
        wanted = clean(text)
        title = f"Searching {where}{plural(len(sessions), 'session')} and conversations"
        self._screen.say(f"{title} for “{wanted}” …")
        found = await asyncio.to_thread(
            panes.search, sessions, text, with_history=with_history, environ=self._screen.environ
        )
        said = await asyncio.to_thread(_search_said, self._screen.environ, rows, text)
        refs, talked = {hit.ref for hit in found.hits}, {hit.key for hit in said}
        keys = [row.key for row in self._screen.view.rows if row.session in refs or row.key in talked]
        others = [hit.ref.name for hit in found.hits if hit.ref not in {row.session for row in self._screen.view.rows}]
        not_searched = f" {len(found.failed)} could not be searched: {found.failed[0][1]}." if found.failed else ""
        if not found.hits and not said:
            kind: Literal["information", "warning"] = "warning" if found.failed else "information"
            self._screen.say(
                f"None of {len(sessions)} shows it, and no conversation has it.{not_searched}", f"“{wanted}”", kind
            )
            return
        if keys:
            self._screen.select_keys(keys)
        also = f" Also in {', '.join(map(clean, others[:3]))}{' …' if len(others) > 3 else ''}." if others else ""
        lines = sum(len(hit.lines) for hit in found.hits)
        marked = f"{plural(len(keys), 'agent')} marked; " if keys else ""
        shown = f"\n{clean(found.hits[0].lines[0])}" if found.hits else ""
        counts = plural(lines, "line")
        if said:
            counts += f" on screens, {sum(len(hit.lines) for hit in said)} in conversations"
            names = [row.agent.name for row in self._screen.view.rows if row.key in talked]
            shown += f"\nin conversations of {', '.join(map(clean, names[:3]))}{' …' if len(names) > 3 else ''}: "
            shown += clean(said[0].lines[-1])
        self._screen.say(f"{marked}{counts}.{also}{not_searched}{shown}", f"“{wanted}”")


def _search_said(environ: Mapping[str, str], rows: Sequence[Row], text: str) -> tuple[ConversationHit, ...]:
    """Search the conversations of the local ones of these agents; called in a thread."""
    from selftest_core.conversation.last_messages import has_conversation, state_folder
    from selftest_core.conversation.search import search_conversations  # not needed for the first frame

    folders = {row.key: state_folder(environ, row.agent) for row in rows if has_conversation(row.agent)}
    return search_conversations({key: folder for key, folder in folders.items() if folder is not None}, text)


def _targets(rows: Sequence[Row]) -> tuple[Target, ...]:
    if not rows:
        raise RefusedError("No agent is selected", "", "Move to an agent, or mark some with space.")
    return tuple(target_of(row) for row in rows)


def _named(targets: Sequence[Target]) -> str:
    return clean(targets[0].name) if len(targets) == 1 else plural(len(targets), "agent")


def _type(target: Target, session: SessionRef | None, pane_id: str | None, composed: Composed) -> ActResult:
    """Type a text; called in a thread. One line is sent as keys, since menus ignore pastes; several as one paste."""
    if session is None:
        return ActResult(target, False, "it has no terminal here")
    try:
        if "\n" in composed.text:
            keystrokes.paste(session, pane_id, composed.text)
            keys = []
        else:
            keys = [Keystroke(text=composed.text)] if composed.text else []
        if composed.with_enter:
            keys.append(Keystroke(name="enter"))
        if keys:
            keystrokes.send_keys(session, pane_id, keys)
    except SelftestError as error:
        return ActResult(target, False, error.title, error.hint)
    return ActResult(target, True, "typed")


def plan_shell(row: Row, environ: Mapping[str, str]) -> AttachPlan:
    """Plan the user's shell in the agent's work folder, inside tmux in a new window. Raises RefusedError."""
    agent = row.agent
    if not agent.work_dir:
        raise RefusedError(f"{agent.name} has no work dir", "mngr names none for it.")
    if agent.host.is_local:
        inner: tuple[str, ...] = ("/bin/sh", "-c", _HERE, "sh", agent.work_dir)
    elif agent.host.ssh is not None:
        script = f"cd -- {shlex.quote(agent.work_dir)} && {_THERE}"
        there = f"exec sh -c {shlex.quote(script)}"
        inner = ("/bin/sh", "-c", f"{agent.host.ssh.command} -t {shlex.quote(there)}")
    else:
        raise RefusedError(f"{agent.name} cannot be reached", "mngr gives no ssh command for its host.")
    where = f"A shell in {clean(agent.work_dir)}"
    own = own_server(environ)
    if own is None:
        return AttachPlan(inner, dict(environ), "hand over", f"{where}; `exit` brings you back.", agent.name)
    argv = new_window_argv(own, "shell", inner, environ)
    return AttachPlan(argv, tmux_environment(environ), "window", f"{where} opens in a new tmux window.", agent.name)
