"""A free port that stays free for who is told of it.

Takes: an address of this machine. Gives: `held_port`, a socket that is bound there.
Keeps true: while it is open the system gives the port to no other process, and who names it may listen there
(with SO_REUSEADDR, as the store does); a client that comes early is refused until somebody listens.
"""

import socket


def held_port(host: str = "127.0.0.1") -> socket.socket:
    """A socket that keeps a free port; `getsockname()[1]` is its number."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, 0))
    return made
