"""The plays of the scripted model, chosen by the last message of the user: `PLAY word rest`, anywhere in it.

A message that names `.selftest/prompt.md` belongs to a run, and so does the answer to a question that a story asks:
`testers` answers them. Any other gets a hello.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.demo.scripted_model.answers import Answer, Refusal, answer_at, question, shell, wait_command
from selftest_core.demo.scripted_model.conversation import PROMPT_FILE
from selftest_core.demo.scripted_model.testers import is_answer, tester
from selftest_core.run.answer.answer import ANSWER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_core.demo.scripted_model.answers import Play
    from selftest_core.demo.scripted_model.conversation import Conversation
    from selftest_core.demo.scripted_model.testers import Stage

LIMITED = "This request would exceed your rate limit."
NO_CREDIT = "Your credit balance is too low to access the API. Please go to Plans & Billing."
_CONTEXT, _CONTEXT_OF_MESSAGE = 12_000, 300
_COMPACTING_SECONDS = 12.0


def answer(talk: Conversation, stage: Stage) -> tuple[str, Answer]:
    """Return the name of the play and its answer to this request."""
    if "detailed summary" in talk.said[-20_000:]:  # Claude Code compacts the conversation
        return "compact", Answer("<summary>All was looked at.</summary>", seconds=_COMPACTING_SECONDS, context=20_000)
    if talk.is_aside:
        return "aside", Answer(json.dumps({"title": "Scripted work", "isNewTopic": True}), context=400)
    played = re.findall(r"PLAY (\w+) ?([^\n]*)", talk.said)
    if played:
        name, rest = played[-1]
        play = PLAYS.get(name, _hello)(talk, rest.strip())
    elif PROMPT_FILE in talk.said or ANSWER_FILE in talk.said or is_answer(talk, stage):
        name, play = "tester", tester(talk, stage)
    else:
        name, play = "hello", _hello(talk, "")
    made = answer_at(play, talk.results)
    return name, replace(made, context=made.context or _CONTEXT + _CONTEXT_OF_MESSAGE * talk.length)


def _hello(talk: Conversation, rest: str) -> Answer:
    return Answer("Hello. I am a scripted model.")


def _think(talk: Conversation, rest: str) -> Answer:
    (seconds,) = _numbers(rest, 20.0)
    return Answer(" ".join(f"Thought {n} about it." for n in range(int(seconds * 2) + 1)), seconds=seconds)


def _sleep(talk: Conversation, rest: str) -> Play:
    (seconds,) = _numbers(rest, 30.0)
    yield shell(talk, wait_command(seconds), "Wait", "I wait.")
    return Answer("I have waited.")


def _bash(talk: Conversation, rest: str) -> Play:
    said = yield shell(talk, rest or "ls", "As asked", "I run it.")
    return Answer(f"It said: {said[:200]}")


def _many(talk: Conversation, rest: str) -> Play:
    (times,) = _numbers(rest, 40.0)
    for number in range(int(times)):
        yield shell(talk, f"echo line {number}", f"Call {number}")
    return Answer("All calls are made.")


def _loop(talk: Conversation, rest: str) -> Play:
    for number in range(len(talk.results) + 1):
        yield shell(talk, f"{wait_command(3)}; date", "Once more", f"Round {number}.")
    raise AssertionError("there is always one more round than results")


def _background(talk: Conversation, rest: str) -> Play:
    (seconds,) = _numbers(rest, 60.0)
    call = shell(talk, wait_command(seconds), "A long job", "In the background.")
    yield replace(call, given={**call.given, "run_in_background": True})
    return Answer("It runs in the background; I say when it is done.")


def _ask(talk: Conversation, rest: str) -> Answer:
    return Answer("I can round prices half up or half to even. Which one do you want?")


def _choose(talk: Conversation, rest: str) -> Play:
    said = yield question(talk, "How shall prices be rounded?", ["Half up", "Half to even"], "I need a decision.")
    return Answer(f"Understood: {said[:200]}")


def _plan(talk: Conversation, rest: str) -> Play:
    yield Answer("Here is my plan.", "ExitPlanMode", {"plan": "1. Fix `Cart.total`.\n2. Run pytest."})
    return Answer("As planned.")


def _subagent(talk: Conversation, rest: str) -> Play:
    given = {"description": "Look around", "prompt": "PLAY sleep 15", "subagent_type": "general-purpose"}
    yield Answer("I send somebody.", "Agent" if "Agent" in talk.tools else "Task", given)
    return Answer("They came back.")


def _limit(talk: Conversation, rest: str) -> Answer:
    times, seconds = _numbers(rest, 3.0, 5.0)
    return Answer("The limit is over.", refusal=limited(times, seconds))


def _busy(talk: Conversation, rest: str) -> Answer:
    (times,) = _numbers(rest, 3.0)
    return Answer("No longer overloaded.", refusal=Refusal(529, "overloaded_error", "Overloaded", int(times)))


def _denied(talk: Conversation, rest: str) -> Answer:
    return Answer(refusal=Refusal(401, "authentication_error", "invalid x-api-key"))


def _no_credit(talk: Conversation, rest: str) -> Answer:
    return Answer(refusal=Refusal(400, "invalid_request_error", NO_CREDIT))


def _hang(talk: Conversation, rest: str) -> Answer:
    (seconds,) = _numbers(rest, 60.0)
    return Answer("I was away.", silence=seconds)


def _cut(talk: Conversation, rest: str) -> Answer:
    (times,) = _numbers(rest, 2.0)
    return Answer("This sentence is never whole when it is cut off.", broken=int(times))


def _big(talk: Conversation, rest: str) -> Answer:
    (tokens,) = _numbers(rest, 190_000.0)
    return Answer("That was a lot.", context=int(tokens))


def _hostile(talk: Conversation, rest: str) -> Answer:
    return Answer("Ring \x07 and \x1b[31mred\x1b[0m and \x1b]0;title\x07 [bold]no markup[/bold] 日本語 🎉 \u202eabc")


def _crash(talk: Conversation, rest: str) -> Play:
    # The shell's parent is the agent's program.
    yield shell(talk, "kill -9 $PPID", "End", "I end here.")
    return Answer("I should not be here.")


def limited(times: float, seconds: float) -> Refusal:
    """Return a rate-limit error."""
    return Refusal(429, "rate_limit_error", LIMITED, int(times), int(seconds))


def _numbers(rest: str, *otherwise: float) -> tuple[float, ...]:
    """Parse the numbers after a play's word, each with its default."""
    found = [float(one) for one in re.findall(r"\d{1,9}(?:\.\d{1,3})?", rest)][: len(otherwise)]
    return (*found, *otherwise[len(found) :])


PLAYS: dict[str, Callable[[Conversation, str], Play | Answer]] = {
    "hello": _hello,
    "think": _think,
    "sleep": _sleep,
    "bash": _bash,
    "many": _many,
    "loop": _loop,
    "background": _background,
    "ask": _ask,
    "choose": _choose,
    "plan": _plan,
    "subagent": _subagent,
    "limit": _limit,
    "busy": _busy,
    "denied": _denied,
    "poor": _no_credit,
    "hang": _hang,
    "cut": _cut,
    "big": _big,
    "hostile": _hostile,
    "crash": _crash,
}
"""Plays by word. Numbers after a word replace its defaults: `PLAY think 20` streams for 20 s, `PLAY limit 3 5` refuses
three requests with 429 and a retry-after of 5 s."""
