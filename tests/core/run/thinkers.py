"""An interactive type of agent for mngr, in a plugin of a test's own world: it keeps the marks that Claude keeps.

`active` stands while a turn lasts, and `permissions_waiting` beside it while a dialog holds it up; mngr itself makes
its states and reasons of them. The agent is a shell script that takes each line as a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.run.far_hosts import configure_mngr

if TYPE_CHECKING:
    from worlds import World

TYPE = "thinker"

_PLUGIN = """
from imbue.mngr import hookimpl
from imbue.mngr.agents.base_agent import SendKeysAgent
from imbue.mngr.config.data_types import AgentTypeConfig
from imbue.mngr.hosts.common import classify_waiting_reason


class Thinker(SendKeysAgent[AgentTypeConfig]):
    def get_expected_process_name(self):
        return "thinker"

    def is_blocked_on_dialog(self):
        return self._check_file_exists(self._get_agent_dir() / "permissions_waiting")


@hookimpl
def register_agent_type():
    return ("thinker", Thinker, AgentTypeConfig)


def waiting_reason(agent, host):
    if not isinstance(agent, Thinker):
        return None
    is_active = agent._check_file_exists(agent._get_agent_dir() / "active")
    return classify_waiting_reason(is_active, is_active and agent.is_blocked_on_dialog())


@hookimpl
def agent_field_generators():
    return ("thinker", {"waiting_reason": waiting_reason})
"""


def teach_mngr(world: World, script: str) -> None:
    """Make `thinker` an agent type in the world; `script` is the shell script that such an agent runs."""
    folder = world.root / "plugin"
    about = folder / "thinker_type-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "thinker_type.py").write_text(_PLUGIN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: thinker-type\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[mngr]\nthinker = thinker_type\n")
    world.extra["PYTHONPATH"] = str(folder)
    configure_mngr(world, f'[agent_types.{TYPE}]\ncommand = "{world.script(TYPE, script)}"\n')
