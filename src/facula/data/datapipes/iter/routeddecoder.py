"""`RoutedDecoder`: values out of files, by the ends of their names.

Takes pairs of a path and a binary stream. Gives pairs of the path and what the first decoder that
knows the name made of it. Keeps true: a stream that was decoded is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import length_of, validate_pathname_binary_tuple
from facula.data.datapipes.utils.decoder import Decoder, extension_extract_fn, imagehandler

__all__ = ["RoutedDecoderIterDataPipe"]


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe):
    """Values decoded by the end of the file's name (functional name: ``routed_decode``).

    Args:
        datapipe: pairs of a path and a binary stream
        handlers: functions of (extension, bytes) that give a value, or None where they do not know
            the extension; by default one for images as tensors
        key_fn: the extension of a path
    """

    def __init__(
        self,
        datapipe: Iterable[tuple[str, Any]],
        *handlers: Callable[[str, Any], Any],
        key_fn: Callable[[str], str] = extension_extract_fn,
    ) -> None:
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (imagehandler("torch"),)), key_fn=key_fn)

    def add_handler(self, *handler: Callable[[str, Any], Any]) -> None:
        """Ask these functions first."""
        self.decoder.add_handler(*handler)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for data in self.datapipe:
            validate_pathname_binary_tuple(data)
            result = self.decoder(data)
            yield (data[0], result[data[0]])

    def __len__(self) -> int:
        return length_of(self, self.datapipe)
