"""Measurements: rows in a registry, each printed as achieved / limit."""
