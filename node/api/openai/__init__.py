"""OpenAI's API: the conversation of a chat completions request; its routes follow."""
