"""Steps that TorchData had: formats of files, archives, caches, networks, threads.

Takes pipes; gives pipes. Nothing here is imported before one of its names is used (`further.py`).
"""
