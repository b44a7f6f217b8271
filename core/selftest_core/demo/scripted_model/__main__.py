"""Run the scripted model: `python -m selftest_core.demo.scripted_model --help`."""

from selftest_core.demo.scripted_model.server import main

main()
