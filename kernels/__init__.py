"""The operations of a Qwen forward pass, one a file: equation, torch reference, launcher."""
