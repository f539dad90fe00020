"""Fourier transforms, the windows for them, and short-time transforms."""
