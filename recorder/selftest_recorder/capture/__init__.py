"""Capture of running terminals: sessions, whole runs, and single attached terminals."""
