"""Recorder of terminals for any host: it uses only the standard library, and runs on Python 3.8 or newer.

It runs here as `python -m selftest_recorder.onhost`, and packed into one file on any host that has Python and tmux,
where this project is not installed. So this package must not import anything else of the project, nor use features
that Python 3.8 lacks.
"""
