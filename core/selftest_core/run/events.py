"""Events of a run's journal, phases of a test, and the table of transitions between phases.

`NEXT` is the only table of transitions: the fold and the conductor use it. An event that does not fit the phase or the
attempt is ignored, so a line can never reopen what has ended.

Fields of each event, besides `agent` (the planned name, the same in all attempts) and `attempt` (from 1):

    conducting    pid                               a conductor started or resumed the run (no agent)
    left          why                               it ended: done, stopped, budget, paused, interrupted (no agent)
    paused        reason, by, signature             launching is paused (no agent)
    resumed                                         launching continues; its cause is accepted (no agent)
    adapted       limit, reason                     the number of agents at a time is another one now (no agent)
    slowed        reason                            launching is slow for this reason; empty: no longer (no agent)
    called        reason, says                      a notification; `says`: why it failed (no agent)
    declined      wish, test, says, text, id        a request that was refused, and why; `text` and `id`: of an
                                                    answer (no agent)
    error         step, test, says                  an unexpected error in our code during `step`; `test`: the test,
                                                    empty if it is of none (no agent)
    smoking       place, type, number, agent_id,    written before a smoke agent is made (no agent)
                  name
    smoked        place, number, ok, seconds, says, its result, why it failed, and its usage (no agent)
                  usage
    halted                                          no more launches, and running agents are stopped (no agent)
    launching     agent_id, name, elapsed, boot     written before `mngr create`
    made          host_id, provider, says           an interactive agent exists and has no prompt yet; `says`: the
                                                    warning of mngr
    prompting     says                              written before its prompt is sent; `says`: why the last one failed
    launched      host_id, provider, adopted,       the agent works: it was made or found, and has its prompt; `unsure`:
                  elapsed, boot, unsure, setup      why it is unknown whether the prompt arrived; `setup`: seconds of
                                                    the setup of its copy, where it had one
    pulling       stamp                             written before its files are fetched
    missed        says, whole, again                they are missing, incomplete, or cannot be fetched yet; `whole`: the
                                                    outcome is complete, but its branch cannot be used; `again`: fetch
                                                    them again even if they do not change
    reminding                                       written before the one reminder is sent
    reminded      says                              written after it; a kill in between sends it again
    noticed       reason                            the agent needs the user; empty: no longer
    limited       reason                            its screen shows a rate limit; empty: no longer
    metered       usage                             the agent's usage until now (`usage.as_fields`); the last one of an
                                                    attempt counts, written before its end and when it is stopped
    ended         end, stage, text, signature,      how the test ended, finally; its files are in place by then; the
                  tip, commits, verifying           signature of the evidence groups failures with one cause;
                                                    `verifying`: it is an agent's claim, which is verified now, or
                                                    the work of an agent that is no tester, which its gate judges
    verified      result, reason, text, signature,  the verdict: passed, failed, flaky or unknown; failed makes the
                  gate                              end `red`, with this text and signature; `gate`: true where the
                                                    gate of the run's role judged, and not a test
    stopped       says                              the agent is stopped; `says`: why it could not be
    answered      id, text, asked, continues        a person's answer, and what the agent asked. A
                                                    running agent is sent it next; for an ended one this attempt is
                                                    over, and the next one gets it: the same agent started again
                                                    (`continues`), else a new one
    told          id, says                          the running agent was sent the answer; `says`: why it did not
                                                    arrive, or may not have
    retrying      reason, text                      this attempt is over, and another one follows; `reason`: asked,
                                                    launch, lost, or gone (the agent of an answer cannot go on)
"""

from __future__ import annotations

from enum import StrEnum


class Event(StrEnum):
    """The event of a line of a run's journal."""

    CONDUCTING = "conducting"
    LEFT = "left"
    PAUSED = "paused"
    RESUMED = "resumed"
    ADAPTED = "adapted"
    SLOWED = "slowed"
    CALLED = "called"
    DECLINED = "declined"
    ERROR = "error"
    SMOKING = "smoking"
    SMOKED = "smoked"
    HALTED = "halted"
    LAUNCHING = "launching"
    MADE = "made"
    PROMPTING = "prompting"
    LAUNCHED = "launched"
    PULLING = "pulling"
    MISSED = "missed"
    REMINDING = "reminding"
    REMINDED = "reminded"
    NOTICED = "noticed"
    LIMITED = "limited"
    METERED = "metered"
    ENDED = "ended"
    VERIFIED = "verified"
    STOPPED = "stopped"
    RETRYING = "retrying"
    ANSWERED = "answered"
    TOLD = "told"


class Phase(StrEnum):
    """The phase of a test. `STOPPING`: its end is known, and its agent must still be stopped."""

    WAITING = "waiting"
    LAUNCHING = "launching"
    WORKING = "working"
    PULLING = "pulling"
    STOPPING = "stopping"
    ENDED = "ended"


RUNNING = (Phase.LAUNCHING, Phase.WORKING, Phase.PULLING)
"""The phases that count towards the limit of running agents."""

NEXT: dict[tuple[Phase, Event], Phase] = {
    (Phase.WAITING, Event.LAUNCHING): Phase.LAUNCHING,
    (Phase.WAITING, Event.ENDED): Phase.ENDED,
    (Phase.LAUNCHING, Event.MADE): Phase.LAUNCHING,
    (Phase.LAUNCHING, Event.PROMPTING): Phase.LAUNCHING,
    (Phase.LAUNCHING, Event.LAUNCHED): Phase.WORKING,
    (Phase.LAUNCHING, Event.RETRYING): Phase.WAITING,
    (Phase.LAUNCHING, Event.ENDED): Phase.ENDED,
    (Phase.WORKING, Event.PULLING): Phase.PULLING,
    (Phase.WORKING, Event.REMINDING): Phase.WORKING,
    (Phase.WORKING, Event.REMINDED): Phase.WORKING,
    (Phase.WORKING, Event.NOTICED): Phase.WORKING,
    (Phase.WORKING, Event.LIMITED): Phase.WORKING,
    (Phase.PULLING, Event.LIMITED): Phase.PULLING,
    **{(phase, Event.METERED): phase for phase in (Phase.LAUNCHING, Phase.WORKING, Phase.PULLING, Phase.STOPPING)},
    (Phase.WORKING, Event.RETRYING): Phase.WAITING,
    (Phase.WORKING, Event.ENDED): Phase.STOPPING,
    (Phase.PULLING, Event.PULLING): Phase.PULLING,
    (Phase.PULLING, Event.MISSED): Phase.WORKING,
    (Phase.PULLING, Event.RETRYING): Phase.WAITING,
    (Phase.PULLING, Event.ENDED): Phase.STOPPING,
    (Phase.STOPPING, Event.STOPPED): Phase.ENDED,
    (Phase.STOPPING, Event.VERIFIED): Phase.STOPPING,
    (Phase.ENDED, Event.VERIFIED): Phase.ENDED,
    (Phase.ENDED, Event.RETRYING): Phase.WAITING,
    (Phase.ENDED, Event.ANSWERED): Phase.WAITING,
    (Phase.WAITING, Event.ANSWERED): Phase.WAITING,
    (Phase.WORKING, Event.ANSWERED): Phase.WORKING,
    (Phase.WORKING, Event.TOLD): Phase.WORKING,
}
"""The next phase by phase and event; other pairs change nothing."""
