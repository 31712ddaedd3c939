"""`python -m bench.gpu_check`: one command that checks and measures what the CUDA path promises."""
