"""A scripted model on 127.0.0.1 for real coding agents: no account, no network, standard library only.

It serves Anthropic's Messages API for Claude Code and OpenAI's Responses API for Codex. `conversation` parses the
requests of both into one form, `plays` and `testers` choose the answer, `streams` encodes it for each API, and `server`
listens and logs every request and answer, which tests compare with.
"""
