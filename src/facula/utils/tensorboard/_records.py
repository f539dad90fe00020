"""Files of records: a length, its check, data, its check.

Takes: bytes. Gives: `RecordWriter`, and `EventFile`, which names and opens the file of a folder.
Keeps true: checks are CRC-32C, masked as TensorBoard expects; what waits is written when so many
events wait, after so many seconds, and at the end of the program.
"""

from __future__ import annotations

import atexit
import os
import socket
import struct
import threading
import time
from typing import BinaryIO

from facula.core.errors import fail
from facula.utils.tensorboard._wire import Event, Message

__all__ = ["EventFile", "RecordWriter"]

_POLYNOMIAL = 0x82F63B78  # CRC-32C, the bits reversed


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def masked_check(data: bytes) -> int:
    """CRC-32C of the data, turned by 15 bits and moved by a constant."""
    check = 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        check = table[(check ^ byte) & 0xFF] ^ check >> 8
    check ^= 0xFFFFFFFF
    return ((check >> 15 | check << 17) + 0xA282EAD8) & 0xFFFFFFFF


class RecordWriter:
    """Writes records to a file that is open for bytes.

    Args:
        writer: the file.

    Example:

        >>> import io
        >>> from facula.utils.tensorboard import RecordWriter
        >>> file = io.BytesIO()
        >>> RecordWriter(file).write(b"abc")
        >>> len(file.getvalue())
        19
    """

    def __init__(self, writer: BinaryIO) -> None:
        self._writer = writer

    def write(self, data: bytes) -> None:
        """Writes one record.

        Args:
            data: what it holds.
        """
        length = struct.pack("<Q", len(data))
        check, end = struct.pack("<I", masked_check(length)), struct.pack("<I", masked_check(data))
        self._writer.write(length + check + data + end)

    def flush(self) -> None:
        """Hands what waits to the system."""
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._writer.closed


_files = 0


class EventFile:
    """The file of events of one writer in a folder; safe to write to from several threads."""

    def __init__(self, folder: str, max_queue: int, flush_secs: float, suffix: str) -> None:
        global _files
        if max_queue < 0:
            fail(
                ValueError,
                "SummaryWriter",
                "max_queue >= 0 was required",
                max_queue,
                "10 by default",
            )
        self.folder, self._most, self._seconds, self._suffix = folder, max_queue, flush_secs, suffix
        os.makedirs(folder, exist_ok=True)
        _files += 1
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
        self.path = os.path.join(folder, f"{name}.{os.getpid()}.{_files - 1}{suffix}")
        self._lock = threading.Lock()
        # kept open until close()
        self._records = RecordWriter(open(self.path, "wb"))
        self._waiting, self._last = 0, time.monotonic()
        atexit.register(self.close)
        self.add(Event(wall_time=time.time(), file_version="brain.Event:2"))
        self.flush()

    def add(self, event: Message) -> None:
        """Adds an event."""
        data = event.SerializeToString()
        with self._lock:
            if self._records.closed:
                fail(
                    OSError,
                    "SummaryWriter",
                    "an open file was required",
                    f"{self.path}, which is closed",
                    "reopen() begins another file",
                )
            self._records.write(data)
            self._waiting += 1
            if self._waiting >= self._most or time.monotonic() - self._last > self._seconds:
                self._flush()

    def _flush(self) -> None:
        self._records.flush()
        self._waiting, self._last = 0, time.monotonic()

    def flush(self) -> None:
        """Hands what waits to the system."""
        with self._lock:
            if not self._records.closed:
                self._flush()

    def close(self) -> None:
        """Writes what waits and closes the file; a second time does nothing."""
        atexit.unregister(self.close)
        with self._lock:
            if not self._records.closed:
                self._records.close()
