"""Collection of tests with the project's own pytest, and selection of the tests that a change affects."""
