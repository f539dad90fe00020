"""Averaging the parameters of ranks that trained by themselves."""
