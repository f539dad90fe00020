"""Views, rearrangements, joins, padding, and tensors out of nothing."""
