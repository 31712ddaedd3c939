"""A node that serves one Qwen model: HTTP, scheduling and the forward pass in one process."""
