"""Collection of tests by the project's own pytest, and which tests a change affects."""
