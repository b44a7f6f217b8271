"""A small repository with a tutorial and tests, for runs that are prepared; and an mngr that answers at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from standins import mngr_that

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

FILES = {
    "tutorial.sh": "#!/bin/sh\nset -e\n\n# Adding\n\nshop add apple 3\nshop total\n\nshop tax 256\n",
    "selftest-tui.toml": "agent = 'command'\nagent_command = ['agents/fix.sh']\n",
    "agents/fix.sh": "#!/bin/sh\nexec sleep 100000\n",
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "shop/__init__.py": "",
    "shop/cart.py": "def total(): return 1\n",
    "tests/test_cart.py": (
        "import pytest\nfrom shop.cart import total\n\n"
        "@pytest.mark.parametrize('x', ['a/b', 'c d'])\n"
        "def test_total(x):\n"
        '    """The sum.\n\n    Tutorial block:\n        shop add apple 3\n        shop total\n    """\n\n'
        "def test_empty(): ...\n"
    ),
    "tests/test_tax.py": 'def test_tax():\n    """Tax.\n\n    Tutorial block:\n        shop tax 256\n    """\n',
    "tests/test_broken.py": "import nothing_is_called_so\n\ndef test_never(): ...\n",
}
TESTS = (
    "tests/test_cart.py::test_total[a/b]",
    "tests/test_cart.py::test_total[c d]",
    "tests/test_cart.py::test_empty",
    "tests/test_tax.py::test_tax",
)
ANSWERS = """
case "$1" in
list) echo '{"agents": [], "errors": []}' ;;
gc) case "$*" in *nowhere*)
    echo "Error: Unknown provider backend: nowhere. Registered backends: local  [Install it]" >&2; exit 1 ;; esac
    echo '{}' ;;
create) case "$*" in *strange*)
    echo "Error: Unknown agent type 'strange'.  [Install that one]" >&2; exit 1 ;; esac
    echo "Error: Unknown provider backend: no" >&2; exit 1 ;;
*) exit 9 ;;
esac
"""
"""What mngr 0.3.0 answers, at once: a listing, and its refusals of unknown providers and types."""


def commit(world: World, message: str) -> str:
    """Commit all that is in the world's repository, and return the full id."""
    world.run(["git", "add", "-A"])
    world.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", message])
    return world.run(["git", "rev-parse", "HEAD"]).stdout.strip()


def make_shop(world: World, answers: str = ANSWERS) -> Path:
    """The repository with two commits (the empty one and the shop), and the quick mngr."""
    folder = world.make_repository()
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (folder / "agents" / "fix.sh").chmod(0o755)
    commit(world, "A shop")
    mngr_that(world, answers)
    # Each run of pytest costs its start, and most of that is plugins that mean nothing here.
    world.extra["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    world.extra["SELFTEST_TUI_PYTEST_COMMAND"] = f"'{sys.executable}' -m pytest"
    return folder
