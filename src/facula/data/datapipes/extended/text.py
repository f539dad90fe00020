"""Steps that read text: lines, tables, JSON, paragraphs.

Takes pairs of a path and an open file, of text or of bytes. Gives what stands in it.
Keeps true: a file is closed when it was read; what cannot be read is an error that names file and
line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.datapipe import IterDataPipe


class _Lines:
    """The lines of a stream as text."""

    def __init__(
        self,
        path: str,
        stream: Any,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "ignore",
    ) -> None:
        self.path, self.stream, self.number = path, stream, 0
        self.skip_lines, self.strip_newline = skip_lines, strip_newline
        self.decode, self.encoding, self.errors = decode, encoding, errors

    def __iter__(self) -> Iterator[Any]:
        try:
            for line in self.stream:
                self.number += 1
                if self.number <= self.skip_lines:
                    continue
                if self.decode and isinstance(line, bytes):
                    line = self._text(line)
                if self.strip_newline:
                    line = line.rstrip("\r\n") if isinstance(line, str) else line.rstrip(b"\r\n")
                yield line
        finally:
            close = getattr(self.stream, "close", None)
            if close is not None:
                close()

    def _text(self, line: bytes) -> str:
        try:
            return line.decode(self.encoding, self.errors)
        except UnicodeDecodeError as error:
            fail(
                ValueError,
                "readlines",
                f"text in {self.encoding} was required in {self.path}, line {self.number}",
                error,
                hint="pass its encoding, or errors='replace'",
            )


class LineReaderIterDataPipe(IterDataPipe):
    """Pairs of a path and a line (functional name: ``readlines``), or with `return_path=False` the
    lines alone.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        *,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = False,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = True,
    ) -> None:
        self.source_datapipe, self.return_path = source_datapipe, return_path
        self.settings = (skip_lines, strip_newline, decode, encoding, errors)

    def __iter__(self) -> Iterator[Any]:
        for path, stream in self.source_datapipe:
            for line in _Lines(path, stream, *self.settings):
                yield (path, line) if self.return_path else line


class _TableIterDataPipe(IterDataPipe):
    """What the readers of tables have in common."""

    op: str

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = False,
        as_tuple: bool = False,
        **fmtparams: Any,
    ) -> None:
        self.source_datapipe, self.return_path = source_datapipe, return_path
        self.settings = (skip_lines, False, decode, encoding, errors)
        self.as_tuple, self.fmtparams = as_tuple, fmtparams

    def _rows(self, lines: Any) -> Iterator[Any]:
        reader = csv.reader(lines, **self.fmtparams)
        return map(tuple, reader) if self.as_tuple else reader

    def __iter__(self) -> Iterator[Any]:
        for path, stream in self.source_datapipe:
            lines = _Lines(path, stream, *self.settings)
            rows = self._rows(lines)
            while True:
                try:
                    row = next(rows)
                except StopIteration:
                    break
                except csv.Error as error:
                    fail(
                        ValueError,
                        self.op,
                        f"a table was required in {path}, line {lines.number}",
                        error,
                        hint="delimiter=, quotechar= and the others of csv.reader say how it is written",
                    )
                yield (path, row) if self.return_path else row


class CSVParserIterDataPipe(_TableIterDataPipe):
    """Rows of tables as lists of texts (functional name: ``parse_csv``); what `csv.reader` takes
    (`delimiter`, `quotechar`, ...) is passed on.
    """

    op = "parse_csv"


class CSVDictParserIterDataPipe(_TableIterDataPipe):
    """Rows of tables as dictionaries, whose keys the first line says (functional name:
    ``parse_csv_as_dict``).
    """

    op = "parse_csv_as_dict"

    def __init__(self, source_datapipe: IterDataPipe, **settings: Any) -> None:
        if "as_tuple" in settings:
            fail(
                TypeError,
                self.op,
                "rows are dictionaries here: as_tuple was not expected",
                settings["as_tuple"],
                hint="parse_csv(as_tuple=True) gives tuples",
            )
        super().__init__(source_datapipe, **settings)

    def _rows(self, lines: Any) -> Iterator[Any]:
        return csv.DictReader(lines, **self.fmtparams)


class JsonParserIterDataPipe(IterDataPipe):
    """Pairs of a path and what the JSON in the file says (functional name: ``parse_json_files``)."""

    def __init__(self, source_datapipe: IterDataPipe, **kwargs: Any) -> None:
        self.source_datapipe, self.kwargs = source_datapipe, kwargs

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.source_datapipe:
            data = stream.read()
            stream.close()
            try:
                value = json.loads(data, **self.kwargs)
            except ValueError as error:
                fail(
                    ValueError,
                    "parse_json_files",
                    f"JSON was required in {path}",
                    error,
                    hint="for a file of one value a line: readlines(), then map(json.loads)",
                )
            yield path, value


def _together(lines: list[str]) -> str:
    return "\n".join(lines)


class ParagraphAggregatorIterDataPipe(IterDataPipe):
    """Pairs of a path and a paragraph: lines up to an empty one (functional name:
    ``lines_to_paragraphs``).
    """

    def __init__(
        self, source_datapipe: IterDataPipe, joiner: Callable[[list[str]], Any] = _together
    ) -> None:
        self.source_datapipe, self.joiner = source_datapipe, joiner

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        lines: list[str] = []
        before: Any = None
        for path, line in self.source_datapipe:
            if lines and path != before:
                yield before, self.joiner(lines)
                lines = []
            before = path
            text = line.decode("utf-8") if isinstance(line, bytes) else line
            if text.strip("\r\n"):
                lines.append(text.strip("\r\n"))
            elif lines:
                yield path, self.joiner(lines)
                lines = []
        if lines:
            yield before, self.joiner(lines)
