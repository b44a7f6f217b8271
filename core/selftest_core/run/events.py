"""The words of a run's journal, the states of a test's agent, and which word leads from which state to which.

One table (`NEXT`) says all transitions; the fold obeys it, the conductor asks it, and no other place knows any. An
event whose state or attempt does not fit is not obeyed: a line can never bring back what is over.

What each event carries besides `agent` (the planned name, which stays through all attempts) and `attempt` (from 1):

    conducting    pid                               a conductor took the run up (no agent)
    left          why                               it left: done, stopped, budget, paused, interrupted (no agent)
    paused        reason, by, signature             launching rests (no agent)
    resumed                                         it goes on; what paused it is accepted (no agent)
    slowed        reason                            launching goes slowly for this; empty: as usual again (no agent)
    called        reason, says                      a person was to be called, and `says` why that failed (no agent)
    declined      wish, test, says                  a wish that cannot be fulfilled, and why (no agent)
    error         step, test, says                  an unexpected error of ours while `step` was done; `test` is whose,
                                                    empty where it belongs to none (no agent)
    smoking       place, type, number, agent_id,    written before a smoke agent is made (no agent)
                  name
    smoked        place, number, ok, seconds, says, how it went, `says` why it failed, and what it used (no agent)
                  usage
    halted                                          no more launches, and what runs is to be ended (no agent)
    launching     agent_id, name, elapsed, boot     written before `mngr create`
    made          host_id, provider, says           an interactive agent is there and has no prompt yet; `says`: what
                                                    mngr complained of
    prompting     says                              written before its prompt is sent; `says`: why the last one failed
    launched      host_id, provider, adopted,       it works: it was made or found there, and has its prompt; `unsure`:
                  elapsed, boot, unsure, setup      why nobody can tell whether it has it; `setup`: seconds that the
                                                    setup of its copy took, where it had one
    pulling       stamp                             written before its files are fetched
    missed        says, whole, again                they are not there, not whole, or cannot be fetched yet; `whole`:
                                                    the outcome is, and its branch cannot be used; `again`: fetch them
                                                    again though they do not change
    reminding                                       written before the one reminder is sent
    reminded      says                              written after it; a kill in between sends it again
    noticed       reason                            it needs a person; empty: not any more
    limited       reason                            its screen says that a service takes no more; empty: not any more
    metered       usage                             what its agent used until now (`usage.as_fields`); the last one of
                                                    an attempt counts, before its end and again when it is stopped
    ended         end, stage, text, signature,      how it ended, for good; its files are in place by then; the
                  tip, commits                      signature is of the evidence, to tell which failures are alike
    stopped       says                              its agent is stopped, or `says` why it could not be
    retrying      reason, text                      this attempt is over, another one will be made
"""

from __future__ import annotations

from enum import StrEnum


class Event(StrEnum):
    """What a line of a run's journal says."""

    CONDUCTING = "conducting"
    LEFT = "left"
    PAUSED = "paused"
    RESUMED = "resumed"
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
    STOPPED = "stopped"
    RETRYING = "retrying"


class Phase(StrEnum):
    """Where a test is. `STOPPING`: its end is known and its agent still has to be stopped."""

    WAITING = "waiting"
    LAUNCHING = "launching"
    WORKING = "working"
    PULLING = "pulling"
    STOPPING = "stopping"
    ENDED = "ended"


RUNNING = (Phase.LAUNCHING, Phase.WORKING, Phase.PULLING)
"""The phases that count against how many may run at once."""

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
    (Phase.ENDED, Event.RETRYING): Phase.WAITING,
}
"""From a phase by an event to the next phase; a pair that is not in here changes nothing."""
