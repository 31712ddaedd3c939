"""Numbers that the engine, the model and the kernels share. It imports nothing: the engine reads it without torch."""

# Tokens of KV in a page, tokens in a chunk of the delta rule, and so the only legal position of a cached state: one
# number, so that the pages and the state of a reused prefix end together, and at the end of a chunk. 64 rows are what
# a warpgroup's matrix instruction takes at once.
PAGE = 64

# Tokens between two writes of a state where decoding defers them. With a ninth the 9B would save 2048 / 72 KiB of
# writes a token and layer and read 12 KiB more of the ring: little left to gain.
RING = 8

# Batch sizes for which decode steps are captured. A step pays for the padding up to its bucket: at most a half of a
# small step, a seventh of a large one.
BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256)
