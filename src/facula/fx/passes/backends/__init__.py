"""Graphs in parts for backends, one module for each."""
