"""What `mpiexec` starts in the place of a rank of `fail_ranks.py`: has a warm server begin it, and ends with it.

Takes: the server's address in FAIL_SERVER, and the environment that the launcher set. Gives: an exit status of 0
where the rank ended by itself, else this process dies as it did.
Keeps true: it imports next to nothing, so that a rank costs a fork; whoever ends it ends the rank, which reads
the end of the connection.
"""

import json
import os
import signal
import socket

with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ["FAIL_SERVER"])
    server.sendall(json.dumps({**os.environ, "FAIL_HELD": "1"}).encode() + b"\n")
    told = b""
    while part := server.recv(64):
        told += part
# the process's number and a line's end; behind that, what says that it ended by itself
if not told.endswith(b"ended"):
    os.kill(os.getpid(), signal.SIGKILL)
