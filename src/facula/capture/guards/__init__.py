"""Guards: what a captured segment looked at, and what has to hold for it to be used again."""
