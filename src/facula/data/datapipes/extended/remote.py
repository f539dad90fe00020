"""Steps that read over networks, and from file systems that `fsspec` knows, S3 among them.

Takes addresses. Gives addresses, or pairs of an address and a binary stream. Keeps true: libraries
are asked for when the first value is; an address that cannot be read is an error that names it.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from typing import Any, NoReturn

from facula.core.errors import fail, said, system_kind
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.further import extra
from facula.data.datapipes.iter.utils import IterableWrapperIterDataPipe
from facula.data.datapipes.utils.common import (
    NamedStream,
    StreamWrapper,
    check_function,
    length_of,
    pairs,
)


def _checked(op: str, url: Any) -> None:
    if not isinstance(url, str):
        hint = "a pipe of texts, one for each address"
        fail(TypeError, op, "an address as text was required", repr(url)[:60], hint)
    try:
        scheme = urllib.parse.urlsplit(url).scheme
    except ValueError:  # of an address like "http://[::1"
        scheme = ""
    if scheme not in ("http", "https"):
        fail(
            ValueError,
            op,
            "an address that begins with http:// or https:// was required",
            url,
            hint="open_files() opens files of this machine",
        )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to addresses of the web only; what tells who asks is for the server that was asked."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        new, old = (urllib.parse.urlsplit(u) for u in (newurl, req.full_url))
        if new.scheme not in ("http", "https"):
            raise urllib.error.HTTPError(req.full_url, code, f"redirected to {newurl}", headers, fp)
        less = old.scheme == "https" and new.scheme == "http"
        if made is not None and (new.netloc != old.netloc or less):
            for name in [n for n in made.headers if n.lower() in _SECRET]:
                made.remove_header(name)
        return made


_SECRET = ("authorization", "cookie", "proxy-authorization", "x-api-key")
_OPENER = urllib.request.build_opener(_Redirects)


class _Body(io.RawIOBase):
    """What a server sends: an early end is an error that names the address."""

    def __init__(self, response: Any, url: str, op: str) -> None:
        self._response, self._url, self._op = response, url, op

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._response.read(len(buffer))
        except (OSError, http.client.HTTPException) as error:
            self._stopped(error)
        if not data and self._response.length:
            self._stopped(f"{self._response.length} bytes less than it said")
        buffer[: len(data)] = data
        return len(data)

    def _stopped(self, error: object) -> None:
        fail(
            ConnectionError,
            self._op,
            f"the whole of {self._url} was required, and the server stopped in the middle",
            error,
            hint="read it again",
        )

    def close(self) -> None:
        self._response.close()
        super().close()


class HttpReaderIterDataPipe(IterDataPipe):
    """Pairs of an address and the stream of its body (functional name: ``read_from_http``).

    Args:
        source_datapipe: addresses
        timeout: seconds for the server to answer
        skip_on_error: whether addresses that cannot be read are left out
        retries: how often a server that answers 5xx, or not at all, is asked again
        kwargs: `headers` of the request
    """

    op = "read_from_http"

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        timeout: float | None = None,
        skip_on_error: bool = False,
        retries: int = 0,
        **kwargs: Any,
    ) -> None:
        unknown = set(kwargs) - {"headers"}
        if unknown:
            fail(
                TypeError,
                self.op,
                "no other settings than `headers` were expected",
                sorted(unknown),
                hint="map() with a library of your own reads in other ways",
            )
        self.source_datapipe, self.timeout, self.skip_on_error = (
            source_datapipe,
            timeout,
            skip_on_error,
        )
        self.retries, self.headers = retries, dict(kwargs.get("headers") or {})

    def _opened(self, url: str) -> Any:
        _checked(self.op, url)
        request = urllib.request.Request(url, headers=self.headers)
        waited: dict[str, Any] = {} if self.timeout is None else {"timeout": self.timeout}
        for attempt in range(self.retries + 1):
            try:
                return _OPENER.open(request, **waited)
            except (OSError, http.client.HTTPException) as error:
                code = getattr(error, "code", None)
                if attempt == self.retries or (code is not None and code < 500):
                    self._refused(url, error)
            time.sleep(min(0.1 * 2**attempt, 5))

    def _refused(self, url: str, error: Exception) -> None:
        close = getattr(error, "close", None)
        if close is not None:
            close()  # an answer with a body
        fail(
            RuntimeError,
            self.op,
            f"Could not get the file at {url}",
            error,
            hint="check the address; retries=3 asks again, skip_on_error=True goes on",
        )

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for url in self.source_datapipe:
            try:
                response = self._opened(url)
            except RuntimeError:
                if self.skip_on_error:
                    continue
                raise
            body = io.BufferedReader(_Body(response, url, self.op))
            yield url, StreamWrapper(body, name=url)

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


class OnlineReaderIterDataPipe(HttpReaderIterDataPipe):
    """The same under another name (functional name: ``read_from_remote``)."""

    op = "read_from_remote"


class FSSpecFileListerIterDataPipe(IterDataPipe):
    """The addresses of files in folders of any file system of fsspec (functional name:
    ``list_files_by_fsspec``); settings of the file system are passed on.
    """

    op = "list_files_by_fsspec"

    def __init__(self, root: Any, masks: Any = "", **kwargs: Any) -> None:
        self.datapipe = (
            root
            if isinstance(root, IterDataPipe)
            else IterableWrapperIterDataPipe([root] if isinstance(root, str) else list(root))
        )
        self.masks = [masks] if isinstance(masks, str) else list(masks)
        self.kwargs = kwargs

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            system, path = _file_system(root, self.kwargs, self.op)
            with _refusals_named(self.op, root):
                system.invalidate_cache()  # what there was before is not what there is
                alone = system.isfile(path)
                names = [] if alone else sorted(system.ls(path, detail=False))
            if alone:
                yield root
            for name in names:
                last = name.rstrip("/").rpartition("/")[2]
                if not any(self.masks) or any(fnmatch(last, mask) for mask in self.masks):
                    yield _address(root, name)


def _refused(op: str, address: str, error: Exception) -> NoReturn:
    kind = system_kind(error, RuntimeError)
    hint = "check the address, and the settings that say who may read or write it"
    fail(
        kind,
        op,
        f"{address} could not be read or written",
        f"{type(error).__name__}: {said(error)}",
        hint,
    )


@contextlib.contextmanager
def _refusals_named(op: str, address: str) -> Iterator[None]:
    """Errors of a file system name the address."""
    try:
        yield
    except Exception as error:  # of fsspec, or of any library that it asks
        _refused(op, address, error)


class _Remote(NamedStream):
    """The stream of a file somewhere else: an early end, or a refusal, names the address."""

    def failed(self, error: Exception) -> None:
        _refused(self.op, self.path, error)


def _opened(
    system: Any, op: str, address: str, path: str, mode: str, settings: dict[str, Any]
) -> Any:
    """A file of a file system; of text where the mode has no "b"."""
    with _refusals_named(op, address):
        if "r" not in mode or "+" in mode:
            return system.open(path, mode, **settings)
        words = {} if "b" in mode else {k: settings[k] for k in _TEXT if k in settings}
        rest = {k: v for k, v in settings.items() if k not in words}
        stream = _Remote(system.open(path, "rb", **rest), op, address)
        return stream if "b" in mode else io.TextIOWrapper(stream, **words)


_TEXT = ("encoding", "errors", "newline")


def _file_system(address: Any, settings: dict[str, Any], op: str) -> tuple[Any, str]:
    core = extra("fsspec.core", op)
    if not isinstance(address, str):
        hint = "a pipe of texts, one for each address"
        fail(TypeError, op, "an address as text was required", repr(address)[:60], hint)
    try:
        return core.url_to_fs(address, **settings)
    except ValueError as error:
        hint = "fsspec.available_protocols() has the first parts of addresses"
        fail(
            ValueError, op, f"an address that fsspec knows was required, not {address}", error, hint
        )
    except ImportError as error:
        fail(
            ModuleNotFoundError,
            op,
            f"a library for the file system of {address} was required",
            error,
            hint="pip install s3fs, for addresses that begin with s3://",
        )


def _address(root: str, name: str) -> str:
    """A name that a file system gave, with the scheme of the address that was asked for."""
    scheme, mark, _ = root.partition("://")
    if not mark:
        return name
    # memory:// gives its names with a slash in front, which files need and others do not
    return f"{scheme}://{name if scheme == 'file' else name.lstrip('/')}"


class FSSpecFileOpenerIterDataPipe(IterDataPipe):
    """Pairs of an address and its open file (functional name: ``open_files_by_fsspec``)."""

    op = "open_files_by_fsspec"

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        mode: str = "r",
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.source_datapipe, self.mode = source_datapipe, mode
        self.kwargs_for_open, self.kwargs = kwargs_for_open or {}, kwargs

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for address in self.source_datapipe:
            system, path = _file_system(address, self.kwargs, self.op)
            opened = _opened(system, self.op, address, path, self.mode, self.kwargs_for_open)
            yield address, StreamWrapper(opened, name=address)

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


class FSSpecSaverIterDataPipe(IterDataPipe):
    """Addresses of files that hold the data, which were written (functional name:
    ``save_by_fsspec``).
    """

    op = "save_by_fsspec"

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if filepath_fn is not None:
            check_function(filepath_fn)
        self.source_datapipe, self.mode, self.filepath_fn = source_datapipe, mode, filepath_fn
        self.kwargs_for_open, self.kwargs = kwargs_for_open or {}, kwargs

    def __iter__(self) -> Iterator[str]:
        for name, data in pairs(self.op, self.source_datapipe):
            address = name if self.filepath_fn is None else self.filepath_fn(name)
            system, path = _file_system(address, self.kwargs, self.op)
            # within a transaction a file appears when it is whole
            with (
                _refusals_named(self.op, address),
                system.transaction,
                system.open(path, self.mode, **self.kwargs_for_open) as file,
            ):
                file.write(data)
            yield address

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


class _S3IterDataPipe(IterDataPipe):
    """What the steps for S3 have in common."""

    op: str

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        length: int = -1,
        request_timeout_ms: int = -1,
        region: str = "",
        endpoint_url: str | None = None,
        **settings: Any,
    ) -> None:
        self.source_datapipe, self.length, self.settings = source_datapipe, length, dict(settings)
        client = dict(self.settings.pop("client_kwargs", {}))
        config = dict(self.settings.pop("config_kwargs", {}))
        if region:
            client["region_name"] = region
        if endpoint_url:
            client["endpoint_url"] = endpoint_url
        if request_timeout_ms != -1:
            config["read_timeout"] = config["connect_timeout"] = request_timeout_ms / 1000
        self.settings.update(client_kwargs=client, config_kwargs=config)

    def _system(self, address: str) -> tuple[Any, str]:
        if not address.startswith("s3://"):
            fail(
                ValueError,
                self.op,
                "an address that begins with s3:// was required",
                address,
                hint="list_files_by_fsspec() takes those of other file systems",
            )
        return _file_system(address, self.settings, self.op)

    def _refused(self, address: str, error: Exception) -> None:
        fail(
            RuntimeError,
            self.op,
            f"{address} could not be read",
            f"{type(error).__name__}: {error}",
            hint="check the address, the region and the keys that say who may read it",
        )

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe) if self.length == -1 else self.length


class S3FileListerIterDataPipe(_S3IterDataPipe):
    """The addresses of objects whose names begin with a prefix (functional name:
    ``list_files_by_s3``), by s3fs.
    """

    op = "list_files_by_s3"

    def __iter__(self) -> Iterator[str]:
        for prefix in self.source_datapipe:
            system, _ = self._system(prefix)
            bucket, _, begin = prefix.removeprefix("s3://").partition("/")
            folder, _, stem = begin.rpartition("/")
            system.invalidate_cache()
            try:
                names = sorted(system.find(f"{bucket}/{folder}".rstrip("/"), prefix=stem))
            except Exception as error:  # of s3fs, botocore or aiohttp
                self._refused(prefix, error)
            # of a folder, `find` may give an object with the folder's own name
            yield from (f"s3://{name}" for name in names if name.startswith(f"{bucket}/{begin}"))


class S3FileLoaderIterDataPipe(_S3IterDataPipe):
    """Pairs of an address and a stream of the object's bytes (functional name:
    ``load_files_by_s3``), by s3fs.
    """

    op = "load_files_by_s3"

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for address in self.source_datapipe:
            system, path = self._system(address)
            try:
                data = system.cat_file(path)
            except Exception as error:  # of s3fs, botocore or aiohttp
                self._refused(address, error)
            yield address, StreamWrapper(io.BytesIO(data), name=address)
