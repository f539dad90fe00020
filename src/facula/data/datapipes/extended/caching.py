"""Steps that keep what was made: in memory, on disk; that save, and compare with sums.

Takes pipes; gives pipes. Keeps true: a file stands under its name only when it is whole (it is
written beside and then renamed); of several processes one makes it and the others wait.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from facula.data.datapipes.utils.common import (
    StreamWrapper,
    check_function,
    length_of,
    pairs,
)
from facula.data.graph import traverse_dps
from facula.data.graph_settings import get_all_graph_pipes
from facula.serialization.files import written_atomically


def write_whole(path: str, data: Any, mode: str = "wb") -> None:
    """Write a file so that it is there whole or not at all; `data` is text, bytes or pieces."""
    if not isinstance(path, (str, os.PathLike)) or "\0" in os.fspath(path):
        required, hint = "paths of files were required", "filepath_fn makes a path of a name"
        fail(TypeError, "save_to_disk", required, repr(path), hint)
    if not hasattr(data, "__iter__"):
        required, hint = (
            f"bytes, text, or pieces of them were required for {path}",
            "map() makes them",
        )
        fail(TypeError, "save_to_disk", required, type(data), hint)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with written_atomically(path) as file:
        for piece in [data] if isinstance(data, (str, bytes, bytearray, memoryview)) else data:
            if isinstance(piece, str) == ("b" in mode):
                fail(
                    TypeError,
                    "save_to_disk",
                    f"{'bytes' if 'b' in mode else 'text'} was required for {path}, by the mode {mode!r}",
                    type(piece),
                    hint="'w' writes text, 'wb' bytes",
                )
            file.write(piece.encode() if isinstance(piece, str) else piece)


class InMemoryCacheHolderIterDataPipe(IterDataPipe):
    """The values of the first whole pass, kept (functional name: ``in_memory_cache``).

    `size` says how many megabytes may be kept; what is beyond comes from the source again.
    """

    def __init__(self, source_dp: IterDataPipe, size: int | None = None) -> None:
        self.source_dp = source_dp
        self.size = None if size is None else size * 1024 * 1024
        self.cache: deque[Any] | None = None
        self._whole = False

    def __iter__(self) -> Iterator[Any]:
        if self.cache is not None:
            yield from self.cache
            if self._whole:
                return
            for number, value in enumerate(self.source_dp):
                if number >= len(self.cache):
                    yield value
            return
        kept: deque[Any] = deque()
        used, room = 0, True
        for value in self.source_dp:
            if room:
                used += sys.getsizeof(value)
                room = self.size is None or used <= self.size
                if room:
                    kept.append(value)
            yield value
        self.cache, self._whole = kept, room

    def __len__(self) -> int:
        return len(self.cache or ()) if self._whole else length_of(self, self.source_dp)

    def __getstate__(self) -> Any:
        return self._state_for_pickle({**self.__dict__, "cache": None, "_whole": False})


class InMemoryCacheHolderMapDataPipe(MapDataPipe):
    """Items that were asked for, kept (functional name: ``in_memory_cache``)."""

    def __init__(self, source_dp: MapDataPipe) -> None:
        self.source_dp = source_dp
        self.cache: dict[Any, Any] = {}

    def __getitem__(self, index: Any) -> Any:
        if index not in self.cache:
            self.cache[index] = self.source_dp[index]
        return self.cache[index]

    def __len__(self) -> int:
        return len(self.source_dp)


class HashCheckerIterDataPipe(IterDataPipe):
    """Pairs of a path and data whose sum is the one in `hash_dict` (functional name: ``check_hash``).

    Data are bytes, text or a stream, which with `rewind` begins anew afterwards. A wrong sum is a
    RuntimeError.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        hash_dict: dict[str, str],
        hash_type: str = "sha256",
        rewind: bool = True,
    ) -> None:
        if hash_type not in ("sha256", "md5"):
            fail(
                ValueError,
                "check_hash",
                "Invalid hash_type requested, should be one of ('sha256', 'md5')",
                hash_type,
                hint="sha256 also withstands those who mean ill",
            )
        wrong = [path for path, each in hash_dict.items() if not isinstance(each, str)]
        if wrong:
            hint = "hexdigest() of hashlib's sums gives such texts"
            fail(
                TypeError, "check_hash", "sums as texts were required", f"others for {wrong}", hint
            )
        self.source_datapipe, self.hash_dict = source_datapipe, hash_dict
        self.hash_type, self.rewind = hash_type, rewind

    def _sum(self, path: str, data: Any) -> tuple[str, Any]:
        total = hashlib.new(self.hash_type, usedforsecurity=self.hash_type != "md5")
        if isinstance(data, (str, bytes, bytearray)):
            total.update(data.encode() if isinstance(data, str) else data)
            return total.hexdigest(), data
        if not hasattr(data, "read"):
            required, got = f"bytes, text or a stream were required for {path}", type(data)
            fail(TypeError, "check_hash", required, got, hint="open_files(mode='b') opens files")
        while piece := data.read(1 << 20):
            total.update(piece.encode() if isinstance(piece, str) else piece)
        if self.rewind:
            try:
                data.seek(0)
            except (OSError, AttributeError) as error:
                fail(
                    RuntimeError,
                    "check_hash",
                    f"a stream that can begin anew was required for {path}",
                    error,
                    hint="save_to_disk() first, or rewind=False",
                )
        return total.hexdigest(), data

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, data in pairs("check_hash", self.source_datapipe):
            if path not in self.hash_dict:
                fail(
                    RuntimeError,
                    "check_hash",
                    f"Unspecified hash for file {path}",
                    hint="hash_dict maps every path to its sum",
                )
            found, data = self._sum(path, data)
            if found != self.hash_dict[path].lower():
                fail(
                    RuntimeError,
                    "check_hash",
                    f"The computed hash {found} of {path} does not match the expected hash "
                    f"{self.hash_dict[path]}. Delete the file manually and retry.",
                    hint="what was loaded is incomplete or was changed",
                )
            yield path, data

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


class SaverIterDataPipe(IterDataPipe):
    """Paths of files that hold the data, which were written (functional name: ``save_to_disk``).

    `filepath_fn` makes a path of the first of each pair; `mode` is "w" for text, "wb" for bytes.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
    ) -> None:
        if filepath_fn is not None:
            check_function(filepath_fn)
        self.mode = mode if "w" in mode else f"w{mode}"
        if self.mode not in ("w", "wb", "wt"):
            fail(
                ValueError,
                "save_to_disk",
                "a mode to write in was required",
                mode,
                hint="'w' writes text, 'wb' bytes",
            )
        self.source_datapipe, self.filepath_fn = source_datapipe, filepath_fn

    def __iter__(self) -> Iterator[str]:
        for name, data in pairs("save_to_disk", self.source_datapipe):
            path = name if self.filepath_fn is None else self.filepath_fn(name)
            write_whole(path, data, self.mode)
            yield path

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


class _Claim:
    """A file beside another one that says that somebody makes that; gone when that process ends."""

    def __init__(self, path: str) -> None:
        self.path = f"{path}.promise"

    def take(self) -> bool:
        """Whether nobody made the claim before."""
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        try:
            handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if self._holder_lives():
                return False
            self.release()
            return self.take()
        with os.fdopen(handle, "w") as file:
            file.write(str(os.getpid()))
        return True

    def _holder_lives(self) -> bool:
        try:
            with open(self.path) as file:
                holder = int(file.read() or 0)
            if holder == 0:  # it is being written
                return time.time() - os.path.getmtime(self.path) < 10
            os.kill(holder, 0)
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return False
        except PermissionError:
            return True
        return True

    def release(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def _as_list(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


class OnDiskCacheHolderIterDataPipe(IterDataPipe):
    """Begins the part of a pipe whose results are kept as files (functional name: ``on_disk_cache``).

    The part ends with ``end_caching``. `filepath_fn` says of a value in which file, or files, its
    result will be; a value whose files are there goes past the part. `hash_dict` and `hash_type`:
    files with another sum are made again. `cache_uuid`, and `extra_check_fn`, which says of a path
    whether it is up to date, are as in TorchData.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        filepath_fn: Callable[[Any], Any] | None = None,
        hash_dict: dict[str, str] | None = None,
        hash_type: str = "sha256",
        extra_check_fn: Callable[[str], bool] | None = None,
    ) -> None:
        if filepath_fn is not None:
            check_function(filepath_fn)
        self.source_datapipe, self.filepath_fn = source_datapipe, filepath_fn
        self.hash_dict, self.hash_type = hash_dict, hash_type
        self.extra_check_fn = extra_check_fn
        self._missing: deque[Any] = deque()
        self._ended = False

    def paths(self, value: object) -> list[str]:
        """The files of a value."""
        return _as_list(value if self.filepath_fn is None else self.filepath_fn(value))

    def is_there(self, path: str) -> bool:
        """Whether a file is there and what it should be."""
        if not os.path.exists(path):
            return False
        if self.hash_dict is not None and path in self.hash_dict:
            total = hashlib.new(self.hash_type, usedforsecurity=False)
            with open(path, "rb") as file:
                while piece := file.read(1 << 20):
                    total.update(piece)
            if total.hexdigest() != self.hash_dict[path].lower():
                return False
        return self.extra_check_fn is None or bool(self.extra_check_fn(path))

    def __iter__(self) -> Iterator[Any]:
        if not self._ended:
            fail(
                RuntimeError,
                "on_disk_cache",
                "Please call `end_caching()` before iteration.",
                hint="end_caching() says where the part ends whose results are kept",
            )
        # the part between begins here: `end_caching` puts in what is to be made, one by one
        while self._missing:
            yield self._missing.popleft()

    def __getstate__(self) -> Any:
        return self._state_for_pickle({**self.__dict__, "_missing": deque()})


class EndOnDiskCacheHolderIterDataPipe(IterDataPipe):
    """Ends the part that ``on_disk_cache`` began (functional name: ``end_caching``): gives the paths
    of the files, in the order of the source.

    `mode` "w", "wb" or "t" says how the results are written (None: they are paths of files that
    are written already); `filepath_fn` makes the path of a result, by default it is
    the one that comes with it; with `same_filepath_fn` it is the one of ``on_disk_cache``.
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        mode: str | None = "wb",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        same_filepath_fn: bool = False,
        skip_read: bool = False,
        timeout: float = 300,
    ) -> None:
        self.datapipe, self.mode, self.timeout = datapipe, mode, timeout
        self.filepath_fn, self.same_filepath_fn, self.skip_read = (
            filepath_fn,
            same_filepath_fn,
            skip_read,
        )
        if filepath_fn is not None and same_filepath_fn:
            fail(
                ValueError,
                "end_caching",
                "`filepath_fn` is mutually exclusive with `same_filepath_fn`",
                hint="pass one of them",
            )
        self.begin = self._find_begin(datapipe)
        self.begin._ended = True

    def _find_begin(self, pipe: IterDataPipe) -> OnDiskCacheHolderIterDataPipe:
        for each in get_all_graph_pipes(traverse_dps(pipe)):
            if isinstance(each, OnDiskCacheHolderIterDataPipe) and not each._ended:
                return each
        fail(
            RuntimeError,
            "end_caching",
            "Expected `OnDiskCacheHolder` existing in pipeline when `end_caching` is invoked",
            hint="on_disk_cache() begins the part whose results are kept",
        )

    def __iter__(self) -> Iterator[str]:
        for value in self.begin.source_datapipe:
            paths = self.begin.paths(value)
            if not all(map(self.begin.is_there, paths)):
                self._make(value, paths)
            yield from paths

    def _make(self, value: object, paths: list[str]) -> None:
        """Run the part for a value, or wait until another process has."""
        claim = _Claim(paths[0])
        end = time.monotonic() + self.timeout
        while not claim.take():
            if time.monotonic() > end:
                fail(
                    TimeoutError,
                    "end_caching",
                    f"{paths[0]}, which another process makes, was required within {self.timeout} "
                    "seconds",
                    hint=f"if that process is gone, delete {claim.path}",
                )
            time.sleep(0.01)
        try:
            if not all(map(self.begin.is_there, paths)):
                self._run(value, paths)
        finally:
            claim.release()

    def _run(self, value: object, paths: list[str]) -> None:
        self.begin._missing.append(value)
        for result in self.datapipe:
            if self.mode is None:
                continue
            name, data = result
            path = self._path(name)
            if self.skip_read:
                write_whole(path, data, _write_mode(self.mode))
            else:
                with _closing(data) as pieces:
                    write_whole(path, pieces, _write_mode(self.mode))
        missing = [path for path in paths if not self.begin.is_there(path)]
        if missing:
            fail(
                RuntimeError,
                "end_caching",
                "the part between on_disk_cache and end_caching was to write files, which are not "
                "there or have another sum",
                missing,
                hint="filepath_fn says of a result in which file it goes",
            )

    def _path(self, name: str) -> str:
        if self.filepath_fn is not None:
            return self.filepath_fn(name)
        if self.same_filepath_fn:
            return self.begin.paths(name)[0]
        return name


def _write_mode(mode: str) -> str:
    return mode if "w" in mode else f"w{mode}"


@contextlib.contextmanager
def _closing(data: Any) -> Iterator[Any]:
    """The pieces of text, bytes or of a stream, which is closed afterwards."""
    if not hasattr(data, "read"):
        yield data
        return
    try:
        yield iter(lambda: data.read(1 << 20), type(data.read(0))())
    finally:
        StreamWrapper.close_streams(data)
        if not isinstance(data, StreamWrapper):
            data.close()
