"""Scheduling: sequences, the two pools, and the plan of each step. Pure Python and numpy."""
