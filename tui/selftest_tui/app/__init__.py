"""The application: its themes, global keys and lifecycle."""
