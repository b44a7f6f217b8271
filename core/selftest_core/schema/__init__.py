"""JSON documents as pydantic models, and their registry. Only commands that print JSON import it."""
