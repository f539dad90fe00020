"""Passes over flat graphs: functions from a graph module to the same one, changed.

`compiler.pipeline` names them in order; each can be checked by `lower.verify`.
"""
