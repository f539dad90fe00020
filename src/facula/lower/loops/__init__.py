"""Flat graphs as loops: lowering, fusion, loop nests, the memory plan. See `docs/compiler.md`.

Takes: flat graphs. Gives: `graph.lower_graph`, `fuse.fuse`, `nest.lay_out`, `memory.plan`.
Keeps true: importing this package imports none of its modules.
"""
