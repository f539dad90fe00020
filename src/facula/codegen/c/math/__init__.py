"""The C math library: which functions there are, and their text."""
