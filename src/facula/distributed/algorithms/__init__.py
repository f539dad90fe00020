"""Algorithms on top of process groups."""
