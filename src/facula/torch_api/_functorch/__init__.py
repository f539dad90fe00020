"""Names of PyTorch's `_functorch`: they re-export and hold nothing."""
