"""Algorithms on top of process groups: hooks of the exchange, joining, model averaging."""
