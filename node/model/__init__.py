"""The Qwen networks: their configuration, their weights and their layers."""
