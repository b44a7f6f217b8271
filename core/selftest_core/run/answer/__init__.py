"""Answers of persons to agents that asked, are blocked, or have ended: values, requests, and their delivery."""
