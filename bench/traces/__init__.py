"""Traces that the repository generates."""
