"""Sorting, selection, and values in order."""
