"""Dialects: typed requests in, events out to the wire."""
