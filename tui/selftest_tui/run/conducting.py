"""Entry of conductors: the core's conductor with recorder, verifier of claims, gates and reporter plugged in.

    python -P -m selftest_tui.run.conducting FOLDER --from FIFO       # started in tmux by `start_conductor`

The core does not import the recorder, nor a run the verification of tests, so they are joined here. Must not import
Textual: conductors do not need it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, assert_never

from selftest_core.run.conduct import conductor_process, conductor_session
from selftest_recorder.capture.run_recording import make_recorder
from selftest_recorder.capture.text_masking import make_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.config import Config
    from selftest_core.journal import Entry
    from selftest_core.run.conduct.conductor_session import ConductorSession
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run
    from selftest_core.run.outcome.claims import ClaimVerifier
    from selftest_core.run.outcome.gate import Gate
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.reporting import Reporter
    from selftest_core.run.store import RunFolder

_PROGRAM = "selftest_tui.run.conducting"


def make_claim_verifier(plan: RunPlan, config: Config, environ: Mapping[str, str]) -> ClaimVerifier:
    """Make what verifies claims when they arrive."""
    from selftest_core.verify.on_arrival import ArrivalVerifier  # not needed by runs without

    return ArrivalVerifier(plan, config, environ)


def make_gate(plan: RunPlan, config: Config, environ: Mapping[str, str]) -> Gate | None:
    """Make the gate of the run's role: imported only where a run has that role."""
    match plan.role:
        case "writer":
            from selftest_core.sync.writer_gate import WriterGate

            return WriterGate(plan, config, environ)
        case "drafter":
            from selftest_core.draft.gate import DraftGate

            return DraftGate(plan, environ)
        case "integrator":
            from selftest_core.integrate.gate import IntegratorGate

            return IntegratorGate(plan, config, environ)
        case "tester":
            return None
        case _:
            assert_never(plan.role)


def make_reporter(folder: RunFolder, environ: Mapping[str, str]) -> Reporter:
    """Make what writes the report as the run goes on."""
    from selftest_recorder.report.writer import RunReporter  # pages need libraries that a conductor's start does not

    return RunReporter(folder, environ)


async def conduct(
    folder: RunFolder,
    environ: Mapping[str, str],
    *,
    policy: Policy | None = None,
    on_change: Callable[[Run, Entry], None] | None = None,
) -> str:
    """Conduct a run in this process and record its agents. Returns why it ended."""
    return await conductor_process.conduct(
        folder, environ, policy=policy, on_change=on_change, make_recorder=make_recorder, make_mask=make_mask,
        make_claim_verifier=make_claim_verifier, make_gate=make_gate, make_reporter=make_reporter,
    )  # fmt: skip


def start_conductor(folder: RunFolder, environ: Mapping[str, str], *, policy: Policy | None = None) -> ConductorSession:
    """Start a conductor that records, in a tmux session of its own."""
    return conductor_session.start_conductor(folder, environ, policy=policy, program=_PROGRAM)


if __name__ == "__main__":
    sys.exit(conductor_process.main(None, make_recorder, make_mask, make_claim_verifier, make_gate, make_reporter))
