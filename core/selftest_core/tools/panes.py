"""Text of tmux panes: for the preview, and for a search over many panes.

One tmux process gives facts and text together, so that both are of the same moment; a search needs one process per
server. The text is untrusted output of programs, with escape sequences for colours on request: it is to be rendered,
never printed. It must not change a pane or start a server.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, ToolOutputError
from selftest_core.frozen import dataclass
from selftest_core.tools.tmux import TIMEOUT, Tmux, exact_session, failure, quote

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from selftest_core.tools.tmux import SessionRef

_FACTS = (
    "pane_id", "pane_width", "pane_height", "cursor_x", "cursor_y", "cursor_flag", "alternate_on", "pane_dead",
    "pane_dead_status", "pane_mode", "history_size", "scroll_position", "bracketed_paste", "pane_title",
)  # fmt: skip
_FACTS_FORMAT = "␞".join(f"#{{{name}}}" for name in _FACTS)
_SEARCH_TIMEOUT = 20.0
_SEARCH_LIMIT = 512 * 1024 * 1024
_LINE_LIMIT = 500
"""Characters of a hit's line that are kept."""
_HITS_LIMIT = 200
"""Lines of one pane that a search returns."""


@dataclass(frozen=True, slots=True)
class PaneText:
    """A pane at one moment. `text` has `history` + `height` lines; the cursor is in cells from the screen's top left.

    `history`: lines of scrollback in `text`; `history_size`: all lines of scrollback. `mode`: tmux's mode of the pane
    ("copy-mode"), "" for none. `dead`: its program has ended. `dead_status`: the exit status of a pane that was kept
    after its end, None until tmux knows it, and for a signal.
    """

    text: str
    pane_id: str
    width: int
    height: int
    cursor_x: int
    cursor_y: int
    history: int = 0
    history_size: int = 0
    title: str = ""
    dead: bool = False
    dead_status: int | None = None
    alternate: bool = False
    cursor_visible: bool = True
    mode: str = ""


@dataclass(frozen=True, slots=True)
class PaneHit:
    """A session with the searched text, and the lines that have it, oldest first."""

    ref: SessionRef
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits of a search, and the sessions that could not be searched, with the reason."""

    hits: tuple[PaneHit, ...]
    failed: tuple[tuple[SessionRef, str], ...] = ()


def pane_target(ref: SessionRef, pane_id: str | None) -> str:
    """Make the target of one pane, by default of the session's current pane."""
    return pane_id if pane_id else f"{exact_session(ref.name)}:"


def capture_arguments(target: str, *, lines_of_history: int, escapes: bool) -> tuple[str, ...]:
    """Build tmux's arguments for the text of one pane; -N keeps trailing blanks, which may have a background colour."""
    first = ("-S", f"-{lines_of_history}") if lines_of_history > 0 else ()
    return ("capture-pane", "-p", *(("-e", "-N") if escapes else ()), *first, "-t", target)


def parse_facts(line: str) -> PaneText:
    """Parse the line of facts; the result has no text. Raises ToolOutputError."""
    parts = line.split("␞", len(_FACTS) - 1)
    try:
        facts = dict(zip(_FACTS, parts, strict=True))
        return PaneText(
            text="",
            pane_id=facts["pane_id"],
            width=int(facts["pane_width"]),
            height=int(facts["pane_height"]),
            cursor_x=int(facts["cursor_x"]),
            cursor_y=int(facts["cursor_y"]),
            cursor_visible=facts["cursor_flag"] != "0",
            alternate=facts["alternate_on"] == "1",
            dead=facts["pane_dead"] == "1",
            dead_status=int(facts["pane_dead_status"]) if facts["pane_dead_status"].isdigit() else None,
            mode=facts["pane_mode"],
            history_size=int(facts["history_size"] or 0),
            title=facts["pane_title"],
        )
    except ValueError as error:
        raise ToolOutputError("tmux printed something unexpected", f"about a pane: {line[:200]!r}") from error


def capture(
    ref: SessionRef,
    pane_id: str | None = None,
    *,
    lines_of_history: int = 0,
    escapes: bool = True,
    environ: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> PaneText:
    """Capture a pane, with up to `lines_of_history` lines of scrollback above it.

    Raises ToolFailedError if the session, pane or server is gone, ToolTimeoutError if the server hangs.
    """
    target = pane_target(ref, pane_id)
    tmux = Tmux(ref.socket, environ)
    done = tmux.ask(
        "display-message", "-p", "-t", target, _FACTS_FORMAT,
        ";", *capture_arguments(target, lines_of_history=lines_of_history, escapes=escapes),
        timeout=timeout,
    )  # fmt: skip
    if not done.ok:
        raise failure(ref.socket, done)
    first, _, text = done.stdout.partition("\n")
    facts = parse_facts(first)
    history = min(max(lines_of_history, 0), facts.history_size)
    return PaneText(
        text=text.removesuffix("\n"),
        pane_id=facts.pane_id,
        width=facts.width,
        height=facts.height,
        cursor_x=facts.cursor_x,
        cursor_y=facts.cursor_y,
        history=history,
        history_size=facts.history_size,
        title=facts.title,
        dead=facts.dead,
        dead_status=facts.dead_status,
        alternate=facts.alternate,
        cursor_visible=facts.cursor_visible,
        mode=facts.mode,
    )


def search(
    sessions: Sequence[SessionRef],
    text: str,
    *,
    with_history: bool = False,
    environ: Mapping[str, str] | None = None,
    timeout: float = _SEARCH_TIMEOUT,
) -> SearchResult:
    """Find the sessions with `text` (case ignored) in any of their panes; wrapped lines are joined.

    One process per server captures all panes. A session or server that is gone, or hangs, is in `failed` and does not
    delay the others. An empty text finds nothing.
    """
    hits: list[PaneHit] = []
    failed: list[tuple[SessionRef, str]] = []
    by_socket: dict[str, list[SessionRef]] = {}
    for ref in dict.fromkeys(sessions):
        by_socket.setdefault(ref.socket, []).append(ref)
    for socket, refs in by_socket.items() if text else ():
        try:
            found = _search_server(Tmux(socket, environ), refs, text, with_history=with_history, timeout=timeout)
        except ToolError as error:
            failed += [(ref, error.title) for ref in refs]
            continue
        for ref in refs:
            lines = found.get(ref.name)
            if lines is None:
                failed.append((ref, "The tmux session is gone"))
            elif lines:
                hits.append(PaneHit(ref, tuple(lines[:_HITS_LIMIT])))
    order = {ref: index for index, ref in enumerate(sessions)}
    return SearchResult(tuple(sorted(hits, key=lambda hit: order[hit.ref])), tuple(failed))


def screens(
    sessions: Sequence[SessionRef],
    *,
    environ: Mapping[str, str] | None = None,
    timeout: float = _SEARCH_TIMEOUT,
    with_history: bool = True,
) -> dict[SessionRef, str]:
    """Capture the plain text of each session's panes, with one process per server.

    Sessions that are gone are left out. Raises ToolError if a server does not answer.
    """
    texts: dict[SessionRef, str] = {}
    for socket in dict.fromkeys(ref.socket for ref in sessions):
        refs = {ref.name: ref for ref in sessions if ref.socket == socket}
        for name, text in _captured(Tmux(socket, environ), refs, with_history=with_history, timeout=timeout):
            texts[refs[name]] = texts.get(refs[name], "") + text
    return texts


def _search_server(
    tmux: Tmux, refs: Sequence[SessionRef], text: str, *, with_history: bool, timeout: float
) -> dict[str, list[str]]:
    """Find the matching lines of each existing session, by its name."""
    found: dict[str, list[str]] = {}
    for name, content in _captured(tmux, {ref.name for ref in refs}, with_history=with_history, timeout=timeout):
        found.setdefault(name, []).extend(matching_lines(content, text))
    return found


def _captured(tmux: Tmux, names: Container[str], *, with_history: bool, timeout: float) -> Iterator[tuple[str, str]]:
    """Capture each pane of these sessions, with the session's name; one that has ended meanwhile is left out."""
    session_of = {pane.pane_id: pane.session for pane in tmux.panes(timeout) if pane.session in names}
    if not session_of:
        return
    mark = f"{secrets.token_hex(16)} "
    script = search_script(list(session_of), mark, with_history=with_history)
    # For a pane that has ended since, tmux prints an error and continues: its mark has no text.
    done = tmux.ask("source-file", "-", timeout=timeout, text=script, limit=_SEARCH_LIMIT)
    if not done.ok and mark not in done.stdout:
        raise failure(tmux.socket, done)
    for pane_id, content in parse_marked(done.stdout, mark):
        if pane_id in session_of:
            yield session_of[pane_id], content


def search_script(pane_ids: Sequence[str], mark: str, *, with_history: bool) -> str:
    """Build tmux commands that print each pane's text after a line with `mark` and the pane id without its `%`.

    tmux formats its output with strftime, which reads `%4` as a field of width four.
    """
    first = " -S -" if with_history else ""
    return "".join(
        f"display-message -p {quote(mark + pane_id.removeprefix('%'))}\ncapture-pane -p -J{first} -t {quote(pane_id)}\n"
        for pane_id in pane_ids
    )


def parse_marked(text: str, mark: str) -> list[tuple[str, str]]:
    """Split the output into texts by pane id. `mark` is random, so that no pane can imitate another."""
    parts = []
    for part in text.split(mark)[1:]:
        number, _, content = part.partition("\n")
        parts.append((f"%{number}", content))
    return parts


def matching_lines(content: str, text: str) -> list[str]:
    """Find the lines with `text`, case ignored, each cut around its first match."""
    wanted = text.casefold()
    if wanted not in content.casefold():
        return []
    lines = []
    for line in content.split("\n"):
        at = line.casefold().find(wanted)
        if at >= 0:
            begin = max(0, at - _LINE_LIMIT // 2)
            lines.append(line.rstrip()[begin : begin + _LINE_LIMIT])
    return lines
