"""End-to-end tests of a tutorial in a real terminal."""
