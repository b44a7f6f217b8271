"""Knowledge of single agent types (Claude Code, Codex): their own files, their settings, their conversations."""
