"""`python -m selftest_tui` is `selftest-tui`."""

from __future__ import annotations

import sys

from selftest_tui.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
