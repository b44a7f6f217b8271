"""One module per outside program: argument builders, parsers, and a thin class that runs it."""
