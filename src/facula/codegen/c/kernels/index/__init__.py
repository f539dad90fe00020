"""Gathers, scatters, masks, search, embeddings, sparse products."""
