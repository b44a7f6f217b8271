"""Commands `doctor` and `key-guard`: the state of this machine, and of the dangerous keys of its tmux servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.cli.command import DONE, SOMETHING_LEFT, Progress, print_lines, write_answer

if TYPE_CHECKING:
    from selftest_core.doctor.doctor import Check
    from selftest_core.schema.maintenance import GuardedServer
    from selftest_tui.cli.command import AddCommand, Call

_MARKS = {"ok": "✓", "warning": "!", "failed": "✗"}
_GUARD = {"open": "acts at once", "guarded": "asks first", "free": "is not bound by mngr"}


def add_doctor(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        "Ends with 1 where something is wrong.",
        """
        selftest-tui doctor
        selftest-tui doctor --json | jq '.checks[] | select(.status != "ok")'
        """,
    )
    command.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    command.set_defaults(run=doctor)


def doctor(call: Call) -> int:
    """Check this machine, and print the results."""
    import asyncio

    from selftest_core.doctor.doctor import diagnose

    with Progress("checking"):
        checks = (*asyncio.run(diagnose(call.environ, call.cwd)), *_named_settings(call))
    if call.is_for_programs:
        from selftest_core.schema.maintenance import doctor_document

        write_answer(doctor_document(checks).model_dump(mode="json"), is_batch=call.arguments.batch)
    else:
        from selftest_tui.shared.present import clean

        longest = max(len(check.name) for check in checks)
        lines = []
        for check in checks:
            lines.append(f"{_MARKS[check.status]} {check.name:<{longest}}  {clean(check.text)}")
            if check.hint and check.status != "ok":
                lines.append(f"  {'':<{longest}}  → {clean(check.hint)}")
        print_lines(lines)
    return SOMETHING_LEFT if any(check.status == "failed" for check in checks) else DONE


def _named_settings(call: Call) -> tuple[Check, ...]:
    """Check the keys, aliases and views of the settings, as far as there are any: the screens alone know them."""
    from contextlib import suppress

    from selftest_core.errors import SelftestError

    with suppress(SelftestError):  # wrong settings are told in a line of their own
        config = call.config
        if config.keys or config.aliases or config.views:
            from selftest_tui.app.named_settings import check_named_settings

            return check_named_settings(config)
    return ()


def add_key_guard(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """mngr binds Ctrl-Q to destroy the agent whose terminal is shown, and Ctrl-T to stop it, without a question.
        The guard makes both ask, on every tmux server of yours that runs.""",
        """
        selftest-tui key-guard
        selftest-tui key-guard --on
        selftest-tui key-guard --off      restore the bindings of mngr
        selftest-tui key-guard --json | jq '.servers[].keys'
        """,
    )
    switch = command.add_mutually_exclusive_group()
    switch.add_argument("--on", action="store_true", help="make both keys ask first")
    switch.add_argument("--off", action="store_true", help="restore mngr's own bindings, which act at once")
    command.add_argument("--json", action="store_true", help="print one JSON document instead of the lines")
    command.set_defaults(run=key_guard)


def key_guard(call: Call) -> int:
    """Switch the guard as the flags say, on every server that runs, and print its state. Raises ToolError."""
    from selftest_core.actions.confirm_keys import bindings, guard, unguard
    from selftest_core.errors import ToolError
    from selftest_core.schema.maintenance import GuardedServer, KeyGuardDocument
    from selftest_core.tools.tmux import require_tmux, sockets_of
    from selftest_tui.fleet.answers import Answer, Answers

    environ, arguments = call.environ, call.arguments
    require_tmux(environ)
    servers = []
    for socket in sockets_of(environ, call.config.sockets):
        try:
            now = bindings(socket, environ)
        except ToolError:  # a socket whose server has ended
            continue
        changed: tuple[str, ...] = ()
        if arguments.on or arguments.off:
            changed = guard(socket, environ) if arguments.on else unguard(socket, environ)
            Answers.of(environ).remember(socket, Answer.GUARD if arguments.on else Answer.LEAVE)
        if changed:
            now = bindings(socket, environ)
        keys = {binding.key: binding.guard.value for binding in now}
        servers.append(GuardedServer.model_validate({"socket": socket, "keys": keys, "changed": list(changed)}))
    if call.is_for_programs:
        write_answer(KeyGuardDocument(servers=servers).model_dump(mode="json"), is_batch=arguments.batch)
    else:
        print_lines(map(_line, servers) if servers else ["No tmux server of yours is running."])
    return DONE


def _line(server: GuardedServer) -> str:
    from selftest_tui.shared.present import clean

    keys = "; ".join(f"{key} {_GUARD[state]}" for key, state in server.keys.items())
    return f"{clean(server.socket)}  {keys or 'mngr has bound no key here'}"
