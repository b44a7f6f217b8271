"""Adapters of other programs, one module each: argument builders, parsers, and a thin class that runs it."""
