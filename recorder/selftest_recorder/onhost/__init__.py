"""What records terminals on the host where they are: the standard library alone, Python 3.8 and newer.

It runs here as `python -m selftest_recorder.onhost`, and packed into one file on any host that has Python and tmux,
where nothing of this project is installed. So nothing in this package may import from outside of it, nor use what
Python 3.8 has not.
"""
