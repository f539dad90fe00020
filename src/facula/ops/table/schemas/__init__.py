"""Schemas of operators and scripts as objects: types, arguments, what is compatible, and the text of it all."""
