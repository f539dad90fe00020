"""Passes over flat graphs: functions from a graph module to the same one, changed.

`driver.optimise` runs them in order, by name; with `verify` the graph is checked after each
(`lower.verify`).
"""
