"""PyTorch's files of exported programs: the archive `.pt2`, and the records in it.

Takes: exported programs. Gives: files that PyTorch reads, and the programs of its files.
Keeps true: a file is data only; whatever is wrong with one is a RuntimeError.
"""
