"""JSON documents as pydantic models, and their registry. Imported by commands that print JSON."""
