"""Modules that compute again in the backward pass."""
