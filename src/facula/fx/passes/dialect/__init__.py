"""Passes over graphs of a given set of operators."""
