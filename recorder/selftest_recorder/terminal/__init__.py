"""Terminal emulator: it turns output bytes into screens."""
