"""Steps that read text: lines, tables, JSON, paragraphs.

Takes pairs of a path and an open file, of text or of bytes. Gives what stands in it.
Keeps true: a file is closed when it was read; what cannot be read is an error that names file and
line.
"""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from facula.core.errors import fail, said, system_kind
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import pairs


def _check_encoding(op: str, encoding: str, errors: str) -> None:
    try:
        codecs.lookup(encoding), codecs.lookup_error(errors)
    except LookupError as error:
        hint = "encoding='utf-8', errors='strict' are the most careful"
        fail(LookupError, op, "an encoding and a treatment of errors were required", error, hint)


class _Lines:
    """The lines of a stream as text."""

    def __init__(
        self,
        op: str,
        path: str,
        stream: Any,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "ignore",
    ) -> None:
        self.op, self.path, self.stream, self.number = op, path, stream, 0
        self.skip_lines, self.strip_newline = skip_lines, strip_newline
        self.decode, self.encoding, self.errors = decode, encoding, errors

    def __iter__(self) -> Iterator[Any]:
        try:
            for line in self._raw():
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

    def _raw(self) -> Iterator[Any]:
        """The lines as they come."""
        if isinstance(self.stream, (str, bytes)) or not hasattr(self.stream, "__iter__"):
            required, got = f"a stream of lines was required for {self.path}", type(self.stream)
            fail(TypeError, self.op, required, got, hint="open_files() opens files")
        try:
            yield from self.stream
        except UnicodeDecodeError as error:
            self._undecoded(error, self.number + 1)
        except (OSError, ValueError) as error:
            kind = system_kind(error, ValueError)
            required = (
                f"a stream that can be read was required for {self.path}, line {self.number + 1}"
            )
            fail(kind, self.op, required, said(error), hint="the file may be damaged, or closed")

    def _text(self, line: bytes) -> str:
        try:
            return line.decode(self.encoding, self.errors)
        except UnicodeDecodeError as error:
            self._undecoded(error, self.number)

    def _undecoded(self, error: UnicodeDecodeError, number: int) -> NoReturn:
        fail(
            ValueError,
            self.op,
            f"text in {error.encoding} was required in {self.path}, line {number}",
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
        _check_encoding("readlines", encoding, errors)
        self.source_datapipe, self.return_path = source_datapipe, return_path
        self.settings = (skip_lines, strip_newline, decode, encoding, errors)

    def __iter__(self) -> Iterator[Any]:
        for path, stream in pairs("readlines", self.source_datapipe):
            for line in _Lines("readlines", path, stream, *self.settings):
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
        _check_encoding(self.op, encoding, errors)
        self.source_datapipe, self.return_path = source_datapipe, return_path
        self.settings = (skip_lines, False, decode, encoding, errors)
        self.as_tuple, self.fmtparams = as_tuple, fmtparams
        try:
            next(self._rows(_Lines(self.op, "", [])), None)
        except (TypeError, csv.Error) as error:
            hint = "delimiter=, quotechar= and the others of csv.reader are taken"
            fail(TypeError, self.op, "settings of a table were required", error, hint)

    def _rows(self, lines: _Lines) -> Iterator[Any]:
        reader = csv.reader(lines, **self.fmtparams)
        return map(tuple, reader) if self.as_tuple else reader

    def __iter__(self) -> Iterator[Any]:
        for path, stream in pairs(self.op, self.source_datapipe):
            lines = _Lines(self.op, path, stream, *self.settings)
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


#: stands where a row and the first line of its table differ in length
_MISFIT: Any = object()


class CSVDictParserIterDataPipe(_TableIterDataPipe):
    """Rows of tables as dictionaries, whose keys the first line says (functional name:
    ``parse_csv_as_dict``).

    A row of more or fewer values than there are keys is an error, unless `restkey` says under which
    key the rest stands, or `restval` which value stands for what is missing.
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

    def _rows(self, lines: _Lines) -> Iterator[Any]:
        reader = csv.DictReader(lines, **{"restkey": _MISFIT, "restval": _MISFIT, **self.fmtparams})
        for row in reader:
            if _MISFIT in row or _MISFIT in row.values():
                found = sum(value is not _MISFIT for value in row.values())
                found += len(row[_MISFIT]) - 1 if _MISFIT in row else 0
                names = reader.fieldnames or ()
                fail(
                    ValueError,
                    self.op,
                    f"{len(names)} values, one for each of {list(names)}, were required in {lines.path}, "
                    f"line {lines.number}",
                    found,
                    hint="restval=None fills what is missing, restkey='rest' takes what is too much",
                )
            yield row


class JsonParserIterDataPipe(IterDataPipe):
    """Pairs of a path and what the JSON in the file says (functional name: ``parse_json_files``)."""

    def __init__(self, source_datapipe: IterDataPipe, **kwargs: Any) -> None:
        self.source_datapipe, self.kwargs = source_datapipe, kwargs

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in pairs("parse_json_files", self.source_datapipe):
            if not hasattr(stream, "read"):
                required, got = f"a stream was required for {path}", type(stream)
                fail(TypeError, "parse_json_files", required, got, hint="open_files() opens files")
            try:
                data = stream.read()
                stream.close()
                value = json.loads(data, **self.kwargs)
            except (ValueError, RecursionError) as error:
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
        for path, line in pairs("lines_to_paragraphs", self.source_datapipe):
            if lines and path != before:
                yield before, self.joiner(lines)
                lines = []
            before = path
            text = self._text(path, line)
            if text.strip("\r\n"):
                lines.append(text.strip("\r\n"))
            elif lines:
                yield path, self.joiner(lines)
                lines = []
        if lines:
            yield before, self.joiner(lines)

    def _text(self, path: str, line: Any) -> str:
        try:
            text = line.decode("utf-8") if isinstance(line, bytes) else line
        except UnicodeDecodeError as error:
            hint = "readlines(decode=True, encoding=...) makes text of other encodings"
            fail(ValueError, "lines_to_paragraphs", f"text was required in {path}", error, hint)
        if not isinstance(text, str):
            hint = "readlines() gives pairs of a path and a line"
            fail(
                TypeError, "lines_to_paragraphs", f"lines were required of {path}", type(line), hint
            )
        return text
