"""Joins and rearrangements, and the text that templates share."""
