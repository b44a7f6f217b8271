"""Masks whole texts by the rules of recordings: it fills the core's port `run.fetch.conversations.MaskMaker`."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from selftest_core.agent_types.profiles import PLAIN
from selftest_recorder.onhost.masking import USUAL_PATTERNS, Masker, make_secrets, read_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.run.fetch.conversations import Mask
    from selftest_core.run.store import RunFolder

_LARGEST = 1024 * 1024
"""Bytes of a file of variables that is read."""


def make_mask(folder: RunFolder, config: Config, environ: Mapping[str, str]) -> Mask:
    """What masks the texts of a run's agents: the values of the variables that its recordings mask, and tokens."""
    secret = (name for name in folder.plan().env_names if name not in PLAIN)
    names = tuple(dict.fromkeys((*secret, *config.mask_env)))
    patterns = (*USUAL_PATTERNS, *config.mask_patterns)
    own = [environ[name] for name in names if environ.get(name)]
    known: dict[Path | None, Masker] = {}

    def mask(text: str, variables: Path | None) -> str:
        masker = known.get(variables)
        if masker is None:
            masker = known[variables] = Masker(make_secrets([*own, *_values(variables, names)], patterns))
        # JSON can spell halves of characters, and a pattern of the person's may find a part of one.
        masked = masker.whole(text.encode("utf-8", "surrogatepass"))
        try:
            return masked.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return masked.decode("utf-8", "replace")

    return mask


def _values(variables: Path | None, names: Iterable[str]) -> list[str]:
    """What the agent's own file says of these variables. The agent can put anything in its place."""
    try:
        told = variables.lstat() if variables is not None else None
    except OSError:
        return []
    if variables is None or told is None or not stat.S_ISREG(told.st_mode) or told.st_size > _LARGEST:
        return []
    return read_values(variables, names)
