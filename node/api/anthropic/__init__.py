"""The Messages API: its requests in, its events and its errors out."""
