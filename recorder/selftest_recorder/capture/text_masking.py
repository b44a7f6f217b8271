"""Masking of whole texts by the rules of recordings; implements the core's port `run.fetch.conversations.MaskMaker`."""

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
"""Largest part of a file of variables that is read, in bytes."""


def make_mask(folder: RunFolder, config: Config, environ: Mapping[str, str]) -> Mask:
    """Return the function that masks texts of a run's agents: values of the masked variables, and tokens."""
    secret = (name for name in folder.plan().env_names if name not in PLAIN)
    names = tuple(dict.fromkeys((*secret, *config.mask_env)))
    patterns = (*USUAL_PATTERNS, *config.mask_patterns)
    own = [environ[name] for name in names if environ.get(name)]
    known: dict[Path | None, Masker] = {}

    def mask(text: str, variables: Path | None) -> str:
        masker = known.get(variables)
        if masker is None:
            masker = known[variables] = Masker(make_secrets([*own, *_values(variables, names)], patterns))
        # JSON can have lone surrogates, and a pattern of the user may match a part of a pair.
        masked = masker.whole(text.encode("utf-8", "surrogatepass"))
        try:
            return masked.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return masked.decode("utf-8", "replace")

    return mask


def _values(variables: Path | None, names: Iterable[str]) -> list[str]:
    """Read the values of variables from the agent's own file, which the agent may have replaced."""
    try:
        told = variables.lstat() if variables is not None else None
    except OSError:
        return []
    if variables is None or told is None or not stat.S_ISREG(told.st_mode) or told.st_size > _LARGEST:
        return []
    return read_values(variables, names)
