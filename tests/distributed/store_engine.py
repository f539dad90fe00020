"""An engine as another package would bring it: messages are values in the store.

Takes: a rendezvous. Gives: `StoreEngine`, which has only what an engine must have.
Keeps true: messages of one rank and channel keep their order.
"""

from __future__ import annotations

import collections
import json
import threading
import time
from typing import Any

from facula.distributed.engine import Engine, Rendezvous


class StoreEngine(Engine):
    """Slow and whole."""

    name = "store"

    def __init__(self, rendezvous: Rendezvous) -> None:
        super().__init__(rendezvous)
        self.sent: dict[Any, int] = collections.defaultdict(int)
        self.read = [0] * self.size
        self.closed = False
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, rank: int, channel: Any, label: str, payload: Any) -> None:
        head = json.dumps([*channel, label]).encode()
        key = f"{self.rank}>{rank}/{self.sent[rank]}"
        self.sent[rank] += 1
        self.store.set(key, len(head).to_bytes(4, "big") + head + bytes(payload))

    def _read(self) -> None:
        while not self.closed:
            found = False
            for rank in range(self.size):
                key = f"{rank}>{self.rank}/{self.read[rank]}"
                try:
                    if not self.store.check([key]):
                        continue
                    data = self.store.get(key)
                    self.store.delete_key(key)
                except RuntimeError:
                    return  # the store was closed
                self.read[rank] += 1
                size = int.from_bytes(data[:4], "big")
                group, sequence, step, label = json.loads(data[4 : 4 + size])
                self.mailbox.put((group, sequence, step), rank, label, bytearray(data[4 + size :]))
                found = True
            if not found:
                time.sleep(0.001)

    def ask(self, rank: int, group: int, seconds: float) -> dict[str, Any] | None:
        return None

    def close(self) -> None:
        self.store.add("closed", 1)
        while self.rank == 0 and self.store.add("closed", 0) < self.size:  # it keeps the store
            time.sleep(0.001)
        self.closed = True
