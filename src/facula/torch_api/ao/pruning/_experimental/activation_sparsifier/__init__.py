"""Masks of what layers take in."""
