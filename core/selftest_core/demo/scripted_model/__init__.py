"""A scripted model on 127.0.0.1 for real coding agents: no account, no network, the standard library alone.

Claude Code talks to it as to Anthropic's Messages API, Codex as to OpenAI's Responses API. `conversation` reads both
requests into one form, `plays` and `testers` decide the answer, `streams` writes it as each API does, and `server`
listens and keeps a log of what was asked and sent: the truth that tests compare with.
"""
