"""Datasets of text on this machine: tables of classes, files of lines, words with tags.

Takes: the path of a file that was fetched before. Gives: pipes of rows.
Keeps true: nothing is fetched; a broken row is an error that names file and line.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.iter import IterableWrapper

__all__ = ["AG_NEWS", "IMDB", "CoNLL2000Chunking", "SST2", "WikiText2", "lines", "tables"]


def _missing(name: str, path: str) -> None:
    if not os.path.exists(path):
        hint = "fetch it yourself; nothing is fetched here"
        fail(FileNotFoundError, name, "the dataset's file was required", path, hint=hint)


def _rows(name: str, path: str, width: int, **settings: Any) -> Iterator[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file, **settings)
        try:
            for row in reader:
                if len(row) != width:
                    got, hint = (
                        f"{path}, line {reader.line_num}: {len(row)}",
                        "the file is another one",
                    )
                    fail(
                        RuntimeError, name, f"rows of {width} columns were required", got, hint=hint
                    )
                yield row
        except (csv.Error, UnicodeDecodeError) as error:
            got = f"{path}, line {reader.line_num}: {error}"
            fail(
                RuntimeError, name, "a table of text was required", got, hint="the file is damaged"
            )


class _Each:
    """An iterable that begins anew each time."""

    def __init__(self, function: Any, *args: Any, **settings: Any) -> None:
        self.function, self.args, self.settings = function, args, settings

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function(*self.args, **self.settings))


def tables(path: Any, width: int, name: str = "tables", **settings: Any) -> Any:
    """A pipe of the rows of a table; settings are those of Python's csv."""
    _missing(name, os.fspath(path))
    return IterableWrapper(_Each(_rows, name, os.fspath(path), width, **settings), deepcopy=False)


def _read(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def lines(path: Any, name: str = "lines") -> Any:
    """A pipe of the lines of a file."""
    _missing(name, os.fspath(path))
    return IterableWrapper(_Each(_read, os.fspath(path)), deepcopy=False)


def AG_NEWS(root: Any, split: str = "train") -> Any:
    """News in four classes: (class, title and text), out of `train.csv` and `test.csv`."""
    rows = tables(os.path.join(root, f"{split}.csv"), 3, "AG_NEWS")
    return rows.map(_labelled)


def _labelled(row: list[str]) -> tuple[int, str]:
    return int(row[0]), " ".join(row[1:])


def SST2(root: Any, split: str = "train") -> Any:
    """Sentences and whether they approve, out of `train.tsv` and its like."""
    rows = tables(
        os.path.join(root, f"{split}.tsv"), 2, "SST2", delimiter="\t", quoting=csv.QUOTE_NONE
    )
    return rows.filter(_no_head).map(_sentence)


def _no_head(row: list[str]) -> bool:
    return row != ["sentence", "label"]


def _sentence(row: list[str]) -> tuple[str, int]:
    return row[0], int(row[1])


def WikiText2(root: Any, split: str = "train") -> Any:
    """The lines of `wiki.train.tokens` and its like."""
    return lines(os.path.join(root, f"wiki.{split}.tokens"), "WikiText2")


def _reviews(root: str, split: str) -> Iterator[tuple[int, str]]:
    for number, label in enumerate(("neg", "pos"), 1):
        folder = os.path.join(root, split, label)
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                yield number, file.read()


def IMDB(root: Any, split: str = "train") -> Any:
    """Reviews of films: (1 against or 2 for, text), out of the folders `train/neg` and their like."""
    for label in ("neg", "pos"):
        _missing("IMDB", os.path.join(root, split, label))
    return IterableWrapper(_Each(_reviews, os.fspath(root), split), deepcopy=False)


def _tagged(path: str) -> Iterator[list[list[str]]]:
    columns: list[list[str]] = []
    for number, line in enumerate(_read(path), 1):
        words = line.split()
        if not words:
            if columns:
                yield columns
            columns = []
            continue
        columns = columns or [[] for _ in words]
        if len(words) != len(columns):
            got, hint = f"{path}, line {number}: {len(words)}", "the file is damaged"
            fail(
                RuntimeError,
                "CoNLL2000Chunking",
                f"{len(columns)} columns were required",
                got,
                hint=hint,
            )
        for column, word in zip(columns, words, strict=True):
            column.append(word)
    if columns:
        yield columns


def CoNLL2000Chunking(root: Any, split: str = "train") -> Any:
    """Sentences as [words, parts of speech, chunks], out of `train.txt` and `test.txt`."""
    path = os.path.join(root, f"{split}.txt")
    _missing("CoNLL2000Chunking", path)
    return IterableWrapper(_Each(_tagged, path), deepcopy=False)
