"""Capture of running terminals: sessions, runs, and single attaches."""
