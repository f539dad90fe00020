"""Streams that close themselves, columns of values, and checks of what steps are given.

Takes files, values and functions. Gives `StreamWrapper`, `validate_input_col`, `applied`, `chosen`.
Keeps true: a file that a pipe opened is closed at the latest when nobody holds its wrapper.
"""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any, ClassVar, NoReturn

import facula
from facula import core
from facula.core.errors import fail

__all__ = [
    "NamedStream",
    "StreamWrapper",
    "applied",
    "chosen",
    "get_file_binaries_from_pathnames",
    "pairs",
    "validate_input_col",
    "validate_pathname_binary_tuple",
]


def no_length(pipe: object) -> NoReturn:
    """Raise that a pipe cannot say how many values it will give."""
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")


def length_of(pipe: object, source: Any) -> int:
    """The length of a source, where it has one; the error names the pipe that asks."""
    try:
        return len(source)
    except (TypeError, NotImplementedError):
        no_length(pipe)


def check_pipes(op: str, pipes: tuple[Any, ...], family: type, wrapper: str) -> None:
    """Raise where there are no pipes, or others than those of a family, which `wrapper` makes."""
    if not pipes:
        fail(
            ValueError,
            op,
            "Expected at least one DataPipe, but got nothing",
            hint="pass the pipes as separate arguments",
        )
    if not all(isinstance(pipe, family) for pipe in pipes):
        fail(
            TypeError,
            op,
            f"Expected all inputs to be `{family.__name__}`",
            [type(pipe).__name__ for pipe in pipes],
            hint=f"{wrapper} makes one",
        )


def batch_size_checked(batch_size: int) -> int:
    """A size of batches, which is at least 1."""
    if batch_size <= 0:
        fail(
            AssertionError,
            "batch",
            "Batch size is required to be larger than 0!",
            batch_size,
            hint="batch_size=1 makes batches of one value",
        )
    return batch_size


def count_of_batches(count: int, batch_size: int, drop_last: bool) -> int:
    """How many batches `count` values give."""
    return count // batch_size if drop_last else -(-count // batch_size)


def drawn_seed(generator: core.Generator | None = None) -> int:
    """A seed drawn from a generator, or from the default one."""
    drawn: Any = facula.empty((), dtype=facula.int64).random_(generator=generator)
    return int(drawn)


def check_function(fn: Callable[..., Any]) -> None:
    """Refuse what cannot be called; warn of functions that pickle does not know."""
    if not callable(fn):
        fail(
            TypeError,
            "datapipes",
            "A callable function is expected",
            type(fn),
            hint="pass the function itself, not what it gives",
        )
    if not inspect.isfunction(fn) or find_spec("dill") is not None:
        return
    for what, found in (
        ("Lambda", fn.__name__ == "<lambda>"),
        ("Local", "<locals>" in fn.__qualname__),
    ):
        if found:
            warnings.warn(
                f"{what} function is not supported by pickle, please use regular python function or "
                "functools.partial instead.",
                stacklevel=4,
            )
            return


def validate_input_col(fn: Callable[..., Any], input_col: object) -> None:
    """Raise ValueError where a function cannot be called with as many values as there are columns."""
    try:
        signature = inspect.signature(fn)
    except ValueError:  # functions of C that do not say what they take
        return
    count = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    try:
        signature.bind(*range(count))
    except TypeError as error:
        fail(
            ValueError,
            getattr(fn, "__name__", repr(fn)),
            f"a function of {count} argument{'s' * (count != 1)} was required, one for each column of "
            f"`input_col`: {error}",
            hint="functools.partial gives a function its other arguments",
        )


def chosen(value: Any, input_col: Any) -> Any:
    """The columns of a value: itself, one, or a tuple of several."""
    if input_col is None:
        return value
    if isinstance(input_col, (list, tuple)):
        return tuple(value[c] for c in input_col)
    return value[input_col]


def applied(fn: Callable[..., Any], value: Any, input_col: Any, output_col: Any) -> Any:
    """A function of the columns of a value, its result put into columns of a copy of it."""
    if input_col is None and output_col is None:
        return fn(value)
    picked = chosen(value, input_col)
    result = fn(*picked) if isinstance(input_col, (list, tuple)) else fn(picked)
    columns: Any = list(value) if isinstance(value, (tuple, list)) else dict(value)
    if output_col is None:
        several = isinstance(input_col, (list, tuple))
        columns[input_col[0] if several else input_col] = result
        if several:
            for column in sorted(input_col[1:], reverse=True):
                del columns[column]
    elif output_col == -1 and isinstance(columns, list):
        columns.append(result)
    else:
        columns[output_col] = result
    return tuple(columns) if isinstance(value, tuple) else columns


def pairs(op: str, source: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """The pairs of a path and what belongs to it that a pipe gives; anything else (a text of two letters, too) is a
    TypeError of the step that asks.
    """
    for value in source:
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            got = f"{len(value)} values" if isinstance(value, (tuple, list)) else repr(value)[:60]
            fail(
                TypeError,
                op,
                "pairs of a path and what belongs to it were required",
                got,
                hint="open_files() gives pairs of a path and a stream",
            )
        yield value[0], value[1]


def validate_pathname_binary_tuple(data: object, op: str = "datapipes") -> None:
    """Raise where a value is no pair of a path and a stream of bytes."""
    kinds = (io.BufferedIOBase, io.RawIOBase, StreamWrapper)
    right = (
        isinstance(data, tuple)
        and len(data) == 2
        and isinstance(data[0], str)
        and isinstance(data[1], kinds)
    )
    if not right:
        fail(
            TypeError,
            op,
            "pathname binary data should be a tuple of a path and a binary stream",
            tuple(each if isinstance(each, str) else type(each) for each in data)
            if isinstance(data, tuple)
            else type(data),
            hint="open_files(mode='b') gives such pairs",
        )


def get_file_binaries_from_pathnames(
    pathnames: Any, mode: str, encoding: str | None = None
) -> Iterator[tuple[str, StreamWrapper]]:
    """Pairs of each path and its open file."""
    alone = isinstance(pathnames, str) or not isinstance(pathnames, Iterable)
    paths = [pathnames] if alone else pathnames
    for path in paths:
        if not isinstance(path, str):
            fail(
                TypeError,
                "open_files",
                "Expected string type for pathname",
                type(path),
                hint="os.fspath(path) makes a string of a path",
            )
        if "\0" in path:
            fail(
                ValueError,
                "open_files",
                "a path without bytes of zero was required",
                repr(path),
                hint="no file has such a name",
            )
        stream = open(path, mode if mode.startswith("r") else f"r{mode}", encoding=encoding)  # noqa: SIM115
        yield path, StreamWrapper(stream, name=path)


class NamedStream(io.BufferedIOBase):
    """A stream of bytes whose errors the step that opened it puts into words (`failed`)."""

    def __init__(self, stream: Any, op: str, path: str) -> None:
        self._stream, self.op, self.path = stream, op, path

    def failed(self, error: Exception) -> None:
        """Raise what an error of the stream means; where this raises nothing, the error itself goes on."""
        raise NotImplementedError

    def _do(self, function: Callable[..., Any], *args: object) -> Any:
        try:
            return function(*args)
        except Exception as error:  # of any library that reads
            self.failed(error)
            raise

    def read(self, size: int | None = -1) -> bytes:
        return self._do(self._stream.read, -1 if size is None else size)

    read1 = read

    def readline(self, size: int | None = -1) -> bytes:
        whole = size is None or size < 0  # fsspec's streams take no size
        return self._do(self._stream.readline, *(() if whole else (size,)))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._do(self._stream.seek, offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


class StreamWrapper:
    """A stream that is closed when nobody holds it; all that streams do is the stream's own.

    A stream out of another one (a member of an archive) names it as `parent_stream`, which with
    `close_on_last_child` is closed after the last stream out of it.
    """

    session_streams: ClassVar[dict[Any, int]] = {}
    debug_unclosed_streams: ClassVar[bool] = False

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        self.file_obj, self.name, self.parent_stream = file_obj, name, parent_stream
        self.child_counter, self.close_on_last_child, self.closed = 0, False, False
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                fail(
                    RuntimeError,
                    "StreamWrapper",
                    "Parent stream should be StreamWrapper",
                    type(parent_stream),
                    hint="StreamWrapper(stream) makes one",
                )
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v: object, depth: int = 0) -> None:
        """Close the streams in a value: itself, and what its containers hold."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, dict):
            for item in v.values():
                cls.close_streams(item, depth + 1)
        elif isinstance(v, (list, tuple)):
            for item in v:
                cls.close_streams(item, depth + 1)

    def __getattr__(self, name: str) -> Any:
        if name == "file_obj":  # a copy that is not made yet
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def close(self, *args: object, **kwargs: object) -> None:
        """Close the stream, and the one around it where this was its last."""
        if self.closed:
            return
        self.closed = True
        StreamWrapper.session_streams.pop(self, None)
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()
        closing = getattr(self.file_obj, "close", None)
        if closing is not None:
            closing(*args, **kwargs)

    def autoclose(self) -> None:
        """Close now where no stream came out of this one; else after the last that did."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *dir(self.file_obj)]

    def __del__(self) -> None:
        if "closed" in self.__dict__ and not self.closed:
            try:
                self.close()
            except (OSError, ValueError, AttributeError, TypeError):
                pass  # the interpreter is shutting down, or the connection is gone

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        return (
            f"StreamWrapper<{self.file_obj!r}>"
            if self.name is None
            else f"StreamWrapper<{self.name},{self.file_obj!r}>"
        )

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, file_obj: object) -> None:
        self.__init__(file_obj)  # type: ignore[misc]
