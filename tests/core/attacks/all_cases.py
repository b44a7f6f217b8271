"""All forged branches that have a name, and the themes of the documentation's table."""

from __future__ import annotations

from core.attacks.adaptive import ADAPTIVE, KNOWING, TESTS_EDITED
from core.attacks.cases import NAMED, Case
from core.attacks.host import ATTEMPTS

CASES: list[Case] = [*NAMED, *ADAPTIVE, *TESTS_EDITED, *KNOWING]
THEMES = [
    *dict.fromkeys(one.theme for one in CASES), "generated", *(f"host: {theme}" for theme in ATTEMPTS), "host: set-up",
    "host: probe", "washers", "one bad branch",
]  # fmt: skip
