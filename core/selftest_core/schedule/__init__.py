"""Scheduled runs, from cron or CI: none starts while an earlier pull request is open."""
