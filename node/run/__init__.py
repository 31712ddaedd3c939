"""From plans to sampled ids: the only place where the scheduler's values become tensors."""
