"""Terminal emulation: bytes in, screens out."""
