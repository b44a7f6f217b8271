"""Scripts that play integrators, for the real mngr."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core.integrate.counters import RESOLVED

if TYPE_CHECKING:
    from pathlib import Path


def answering(command: str, path: str = "shop/price.py") -> str:
    """An agent that answers with what a command prints."""
    return f"""#!/bin/sh
test "$SELFTEST_ROLE" = integrator && test -s .selftest/prompt.md || exit 9
mkdir -p "$(dirname "$SELFTEST_OUT/resolved/{path}")"
{{
{command}
}} > "$SELFTEST_OUT/resolved/{path}"
cat > "$SELFTEST_OUT/outcome.json.draft" <<'END'
{json.dumps(RESOLVED)}
END
mv "$SELFTEST_OUT/outcome.json.draft" "$SELFTEST_OUT/outcome.json"
"""


def put_agent(folder: Path, script: str) -> None:
    """Put the script where the tests name it."""
    path = folder / "integrator.sh"
    path.write_text(script)
    path.chmod(0o755)
