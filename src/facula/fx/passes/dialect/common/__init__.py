"""Passes that need no particular set of operators."""
