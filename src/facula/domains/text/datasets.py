"""Datasets of text on this machine: tables of classes, files of lines, words with tags.

Takes: the path of a file that was fetched before. Gives: pipes of rows.
Keeps true: nothing is fetched; a broken row is an error that names file and line.
"""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.iter import IterableWrapper

__all__ = [
    "AG_NEWS", "AmazonReviewFull", "AmazonReviewPolarity", "CoLA", "CoNLL2000Chunking", "DBpedia", "IMDB", "Multi30k",
    "PennTreebank", "SST2", "SogouNews", "UDPOS", "WikiText103", "WikiText2", "YahooAnswers", "YelpReviewFull",
    "YelpReviewPolarity", "lines", "tables", "text_lines",
]  # fmt: skip


def _missing(name: str, path: str) -> None:
    if not os.path.exists(path):
        hint = "fetch it yourself; nothing is fetched here"
        fail(FileNotFoundError, name, "the dataset's file was required", path, hint=hint)


def _rows(
    name: str, path: str, width: int, label: int | None = None, **settings: Any
) -> Iterator[list[Any]]:
    """Rows of a table; the column `label` holds whole numbers."""
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
                yield row if label is None else _numbered(name, path, reader.line_num, row, label)
        except (csv.Error, UnicodeDecodeError) as error:
            got = f"{path}, line {reader.line_num}: {error}"
            fail(
                RuntimeError, name, "a table of text was required", got, hint="the file is damaged"
            )


def _numbered(name: str, path: str, line: int, row: list[Any], place: int) -> list[Any]:
    try:
        row[place] = int(row[place])
    except ValueError:
        got, hint = (
            f"{path}, line {line}: {row[place]!r:.40}",
            "the file is another one, or damaged",
        )
        fail(
            RuntimeError, name, f"a whole number in column {place + 1} was required", got, hint=hint
        )
    return row


class _Each:
    """An iterable that begins anew each time."""

    def __init__(self, function: Callable[..., Any], *args: object, **settings: object) -> None:
        self.function, self.args, self.settings = function, args, settings

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function(*self.args, **self.settings))


def _pipe(function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """A pipe of what a function gives, of which each worker gives its share, in order unless a loader shuffles."""
    whole = IterableWrapper(_Each(function, *args, **settings), deepcopy=False)
    return whole.shuffle().set_shuffle(False).sharding_filter()


def tables(path: Any, width: int, name: str = "tables", **settings: object) -> Any:
    """A pipe of the rows of a table; settings are those of Python's csv."""
    _missing(name, os.fspath(path))
    return _pipe(_rows, name, os.fspath(path), width, **settings)


def text_lines(name: str, path: str) -> Iterator[str]:
    """The lines of a file; one that is no text is an error that names the file and the line."""
    number = 0
    with open(path, encoding="utf-8") as file:
        try:
            for line in file:
                number += 1
                yield line.rstrip("\n")
        except UnicodeDecodeError as error:
            got, hint = f"{path}, behind line {number}: {error}", "the file is damaged"
            fail(RuntimeError, name, "a file of text (UTF-8) was required", got, hint=hint)


def lines(path: str | os.PathLike[str], name: str = "lines") -> Any:
    """A pipe of the lines of a file."""
    _missing(name, os.fspath(path))
    return _pipe(text_lines, name, os.fspath(path))


def _classes(name: str, root: Any, split: str, width: int) -> Any:
    """(class, text) out of `train.csv` or `test.csv`, whose other columns are one text."""
    rows = tables(os.path.join(root, f"{split}.csv"), width, name, label=0)
    return rows.map(_labelled)


def _labelled(row: list[Any]) -> tuple[int, str]:
    return row[0], " ".join(row[1:])


def AG_NEWS(root: str | os.PathLike[str], split: str = "train") -> Any:
    """News in four classes: (class, title and text), out of `train.csv` and `test.csv`."""
    return _classes("AG_NEWS", root, split, 3)


def AmazonReviewFull(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Reviews of goods with one to five stars: (stars, title and text), out of `train.csv` and `test.csv`."""
    return _classes("AmazonReviewFull", root, split, 3)


def AmazonReviewPolarity(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Reviews of goods: (1 against or 2 for, title and text), out of `train.csv` and `test.csv`."""
    return _classes("AmazonReviewPolarity", root, split, 3)


def DBpedia(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Articles in fourteen classes: (class, title and text), out of `train.csv` and `test.csv`."""
    return _classes("DBpedia", root, split, 3)


def SogouNews(root: str | os.PathLike[str], split: str = "train") -> Any:
    """News in five classes: (class, title and text), out of `train.csv` and `test.csv`."""
    return _classes("SogouNews", root, split, 3)


def YahooAnswers(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Questions in ten classes: (class, title, question and answer), out of `train.csv` and `test.csv`."""
    return _classes("YahooAnswers", root, split, 4)


def YelpReviewFull(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Reviews of places with one to five stars: (stars, text), out of `train.csv` and `test.csv`."""
    return _classes("YelpReviewFull", root, split, 2)


def YelpReviewPolarity(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Reviews of places: (1 against or 2 for, text), out of `train.csv` and `test.csv`."""
    return _classes("YelpReviewPolarity", root, split, 2)


def CoLA(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Sentences and whether they are English: (source, 0 or 1, text), out of `in_domain_train.tsv` and its like."""
    names = {"train": "in_domain_train", "dev": "in_domain_dev", "test": "out_of_domain_dev"}
    path = os.path.join(root, f"{names.get(split, split)}.tsv")
    rows = tables(path, 4, "CoLA", delimiter="\t", quoting=csv.QUOTE_NONE, label=1)
    return rows.map(_judged)


def _judged(row: list[Any]) -> tuple[str, int, str]:
    return row[0], row[1], row[3]


def _headed(path: str) -> Iterator[tuple[str, int]]:
    """Sentences and labels below a head."""
    settings: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    rows = _rows("SST2", path, 2, **settings)
    for number, row in enumerate(rows, 1):
        if row != ["sentence", "label"]:
            sentence, label = _numbered("SST2", path, number, row, 1)
            yield sentence, label


def SST2(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Sentences and whether they approve, out of `train.tsv` and its like."""
    path = os.path.join(root, f"{split}.tsv")
    _missing("SST2", path)
    return _pipe(_headed, path)


def WikiText2(root: str | os.PathLike[str], split: str = "train") -> Any:
    """The lines of `wiki.train.tokens` and its like."""
    return lines(os.path.join(root, f"wiki.{split}.tokens"), "WikiText2")


def WikiText103(root: str | os.PathLike[str], split: str = "train") -> Any:
    """The lines of `wiki.train.tokens` and its like."""
    return lines(os.path.join(root, f"wiki.{split}.tokens"), "WikiText103")


def PennTreebank(root: str | os.PathLike[str], split: str = "train") -> Any:
    """The lines of `ptb.train.txt` and its like, without spaces at the ends."""
    return lines(os.path.join(root, f"ptb.{split}.txt"), "PennTreebank").map(str.strip)


def _translated(paths: list[str]) -> Iterator[tuple[str, ...]]:
    sides = [text_lines("Multi30k", path) for path in paths]
    for number, row in enumerate(itertools.zip_longest(*sides), 1):
        if None in row:
            got, hint = f"{paths[row.index(None)]}: {number - 1}", "the files are of different sets"
            fail(RuntimeError, "Multi30k", "files with as many lines were required", got, hint=hint)
        yield row


def Multi30k(root: Any, split: str = "train", language_pair: tuple[str, str] = ("de", "en")) -> Any:
    """Sentences in two languages, out of `train.de`, `train.en` and their like."""
    paths = [os.path.join(root, f"{split}.{language}") for language in language_pair]
    for path in paths:
        _missing("Multi30k", path)
    return _pipe(_translated, paths)


def _whole(name: str, path: str) -> str:
    with open(path, encoding="utf-8") as file:
        try:
            return file.read()
        except UnicodeDecodeError as error:
            hint = "the file is damaged"
            fail(
                RuntimeError,
                name,
                "a file of text (UTF-8) was required",
                f"{path}: {error}",
                hint=hint,
            )


def _reviews(root: str, split: str) -> Iterator[tuple[int, str]]:
    for number, label in enumerate(("neg", "pos"), 1):
        folder = os.path.join(root, split, label)
        for name in sorted(os.listdir(folder)):
            yield number, _whole("IMDB", os.path.join(folder, name))


def IMDB(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Reviews of films: (1 against or 2 for, text), out of the folders `train/neg` and their like."""
    for label in ("neg", "pos"):
        _missing("IMDB", os.path.join(root, split, label))
    return _pipe(_reviews, os.fspath(root), split)


def _tagged(name: str, path: str, separator: str | None = None) -> Iterator[list[list[str]]]:
    columns: list[list[str]] = []
    for number, line in enumerate(text_lines(name, path), 1):
        words = line.split(separator) if line.strip() else []
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
                name,
                f"{len(columns)} columns were required",
                got,
                hint=hint,
            )
        for column, word in zip(columns, words, strict=True):
            column.append(word)
    if columns:
        yield columns


def CoNLL2000Chunking(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Sentences as [words, parts of speech, chunks], out of `train.txt` and `test.txt`."""
    path = os.path.join(root, f"{split}.txt")
    _missing("CoNLL2000Chunking", path)
    return _pipe(_tagged, "CoNLL2000Chunking", path)


def UDPOS(root: str | os.PathLike[str], split: str = "train") -> Any:
    """Sentences as [words, parts of speech, parts as the Penn treebank has them], out of `en-ud-v2-train.txt` ..."""
    path = os.path.join(root, f"en-ud-v2-{split}.txt")
    _missing("UDPOS", path)
    return _pipe(_tagged, "UDPOS", path, "\t")
