"""Environments in which the agent acts."""
