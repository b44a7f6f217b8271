"""Agent types such as Claude Code and Codex: their files, settings and conversations."""
