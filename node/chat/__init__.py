"""Between the dialects and the engine: conversations into prompt ids, sampled ids into events."""
