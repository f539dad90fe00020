"""Weights from the network, kept in a folder: the part of `torch.hub` that model libraries use.

Takes addresses and file names. Gives files and state dicts. Also entry points of a folder of the user's own
(`source="local"`), whose `hubconf.py` is a module like others. Keeps true: a file stands under its name only when it
is whole and, where a hash is known, has that hash; a server that says nothing is waited for at most `TIMEOUT` seconds
at a time; what is packed is read in place, so no archive writes another file; loading a file runs no code, and no
repository is fetched or run.
"""

from __future__ import annotations

import builtins
import errno
import hashlib
import importlib.util
import io
import os
import re
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from facula.core.errors import fail
from facula.core.errors import no_attribute as _no_attribute
from facula.serialization import load as load_file
from facula.serialization.archive import read_entry
from facula.serialization.checkpoint import MapLocation

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
]  # fmt: skip

#: `resnet18-bf5a0eef.pth` names the start of the file's SHA-256
ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR = "TORCH_HOME", "XDG_CACHE_HOME", "~/.cache"
MODULE_HUBCONF = "hubconf.py"
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
#: seconds to wait for an answer, and for each further part
TIMEOUT = 30.0
_chosen: str | None = None


def _get_torch_home() -> str:
    """The folder of everything that is kept: `$TORCH_HOME`, or `torch` in the user's cache."""
    cache = os.environ.get(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.environ.get(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder for downloads."""
    return _chosen if _chosen is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep downloads in another folder."""
    global _chosen
    _chosen = os.path.expanduser(os.fspath(d))


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetches `url` into the file `dst`, which stands there only when it is whole.

    Raises RuntimeError where the SHA-256 does not start with `hash_prefix`, and OSError as the
    network and the file system give it.
    """
    target = os.path.expanduser(dst)
    folder = os.path.dirname(target) or "."
    handle, temporary = tempfile.mkstemp(suffix=".partial", dir=folder)
    found = hashlib.sha256()
    try:
        with (
            urlopen(Request(url, headers={"User-Agent": "facula.hub"}), timeout=TIMEOUT) as source,
            os.fdopen(handle, "wb") as file,
        ):
            _copy(source, file, found, progress)
        if hash_prefix is not None and not found.hexdigest().startswith(hash_prefix):
            fail(
                RuntimeError,
                "download_url_to_file",
                f'a file whose SHA-256 starts with "{hash_prefix}"',
                got=f'invalid hash value "{found.hexdigest()}"',
                hint="the download was cut off, or the address has another file by now",
            )
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _copy(source: Any, file: Any, found: Any, progress: bool) -> None:
    """Copies a stream, and says on a terminal how far it is."""
    size = int(source.headers.get("Content-Length") or 0)
    done, shown = 0, progress and sys.stderr.isatty()
    while chunk := source.read(READ_DATA_CHUNK):
        file.write(chunk)
        found.update(chunk)
        done += len(chunk)
        if shown:
            of = f" of {size / 1e6:.1f}" if size else ""
            print(f"\r{done / 1e6:.1f}{of} MB", end="", file=sys.stderr)
    if shown:
        print(file=sys.stderr)
    if size and done < size:
        fail(
            ConnectionError,
            "download_url_to_file",
            f"a file of {size} bytes was required",
            got=f"{done} bytes, then the end",
            hint="the connection was cut off: fetch it again",
        )


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: MapLocation = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """The object in the file at `url`, which is fetched once and kept in `model_dir`.

    With `check_hash` a name such as `resnet18-bf5a0eef.pth` says how the SHA-256 of the file starts: one
    that was kept and has another is fetched again.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    name = file_name or os.path.basename(urlparse(url).path)
    if name in ("", ".", "..") or "\0" in name:
        fail(
            ValueError,
            "load_state_dict_from_url",
            "an address that ends with a file's name was required",
            got=url,
            hint="pass file_name=, the name to keep it under",
        )
    kept = os.path.join(folder, name)
    match = HASH_REGEX.search(name) if check_hash else None
    prefix = match[1] or None if match else None
    if not os.path.exists(kept) or not _has_hash(kept, prefix):
        download_url_to_file(url, kept, prefix, progress)
    if not _is_packed(kept):
        return load_file(kept, map_location=map_location)
    return load_file(io.BytesIO(_unpacked(kept)), map_location=map_location)


def _unpacked(path: str) -> bytes:
    """The one file in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            (only,) = archive.infolist()
            return read_entry(archive, only, os.path.getsize(path), packed=True)
    except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, OSError, EOFError,
            NotImplementedError, LookupError) as error:  # fmt: skip
        fail(
            RuntimeError,
            "load_state_dict_from_url",
            "an archive that is whole was required",
            got=f"{path} ({type(error).__name__}: {error})",
            hint="remove it, so that it is fetched again",
        )


def _has_hash(path: str, prefix: str | None) -> bool:
    """Whether the SHA-256 of a file that was kept starts with `prefix`, where one is known."""
    if prefix is None:
        return True
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest().startswith(prefix)


def _is_packed(path: str) -> bool:
    """Whether the file is a ZIP of one file, as checkpoints were packed before PyTorch 1.6."""
    if not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return len(archive.infolist()) == 1
    except (
        zipfile.BadZipFile,
        struct.error,
        ValueError,
        OSError,
        LookupError,
        NotImplementedError,
    ):
        return False  # `load` says what is wrong with it


@contextmanager
def _importable(folder: str | os.PathLike[str]) -> Iterator[None]:
    """A block in which the modules of a folder can be imported."""
    path = os.path.realpath(os.path.expanduser(os.fspath(folder)))
    sys.path.insert(0, path)
    try:
        yield
    finally:
        sys.path.remove(path)


def _entries(op: str, folder: str | os.PathLike[str], source: str) -> dict[str, Callable[..., Any]]:
    """The entry points of a folder's `hubconf.py`, by name; the folder's modules are importable meanwhile.

    Raises:
        ValueError: the source is no folder of this machine, or none that there is.
        FileNotFoundError: the folder has no `hubconf.py`.
        RuntimeError: a package that it asks for is missing.
    """
    if source not in ("github", "local"):
        fail(
            ValueError,
            op,
            "a known source: 'github' or 'local' were required",
            source,
            hint="source='local' takes the path of a folder",
        )
    if source == "github":
        fail(
            ValueError,
            op,
            "a folder of this machine was required: no repository is fetched and run",
            folder,
            hint="clone the repository and look at it, then pass its folder with source='local'",
        )
    return _run_hubconf(op, os.path.realpath(os.path.expanduser(os.fspath(folder))))


def _run_hubconf(op: str, folder: str) -> dict[str, Callable[..., Any]]:
    """The entry points of `hubconf.py` in a folder; the folder's modules are importable meanwhile."""
    path = os.path.join(folder, "hubconf.py")
    if not os.path.isfile(path):
        fail(
            FileNotFoundError,
            op,
            "a folder with hubconf.py was required",
            folder,
            hint="hubconf.py has a function for each model",
        )
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _importable(folder):
        spec.loader.exec_module(module)
    missing = [
        d for d in getattr(module, "dependencies", ()) if importlib.util.find_spec(d) is None
    ]
    if missing:
        fail(
            RuntimeError,
            op,
            f"the packages that hubconf.py names were required (Missing dependencies: {', '.join(missing)})",
            "none of them",
            hint=f"pip install {' '.join(missing)}",
        )
    found = {n: v for n, v in vars(module).items() if callable(v) and not n.startswith("_")}
    return {n: v for n, v in found.items() if not isinstance(v, type)}


def _entry(op: str, folder: str | os.PathLike[str], model: str, source: str) -> Callable[..., Any]:
    if not isinstance(model, str):
        fail(
            ValueError,
            op,
            "Invalid input: model should be a string of function name",
            type(model).__name__,
            hint="hub.list() has the names",
        )
    entries = _entries(op, folder, source)
    if model not in entries:
        fail(
            RuntimeError,
            op,
            f"a function of hubconf.py was required (Cannot find callable {model} in hubconf)",
            ", ".join(entries) or "no function",
            hint="hub.list() has the names",
        )
    return entries[model]


def list(
    github: Any,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: object = None,
    verbose: bool = True,
    *,
    source: str = "github",
) -> builtins.list[str]:
    """The names of the models that a folder's `hubconf.py` makes.

    Args:
        github: the folder
        force_reload, skip_validation, trust_repo, verbose: kept as in PyTorch; they are about repositories
        source: `"local"`; repositories are neither fetched nor run

    Raises:
        ValueError: the source is `"github"`.
        FileNotFoundError: the folder has no `hubconf.py`.

    Example:
        >>> with open("hubconf.py", "w") as file:
        ...     _ = file.write("def half(x):\\n    'A half of it.'\\n    return x / 2\\n")
        >>> facula.hub.list(".", source="local")
        ['half']
    """
    return builtins.list(_entries("hub.list", github, source))


def help(
    github: Any,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: object = None,
    *,
    source: str = "github",
) -> str | None:
    """What a model's function says of itself; arguments are those of `list`, and the function's name.

    Example:
        >>> with open("hubconf.py", "w") as file:
        ...     _ = file.write("def half(x):\\n    'A half of it.'\\n    return x / 2\\n")
        >>> facula.hub.help(".", "half", source="local")
        'A half of it.'
    """
    return _entry("hub.help", github, model, source).__doc__


def load(
    repo_or_dir: Any,
    model: str,
    *args: object,
    source: str = "github",
    trust_repo: object = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: object,
) -> Any:
    """What a function of a folder's `hubconf.py` gives for these arguments.

    Args:
        repo_or_dir: the folder
        model: the function's name
        *args, **kwargs: for the function
        source: `"local"`; repositories are neither fetched nor run
        trust_repo, force_reload, verbose, skip_validation: kept as in PyTorch; they are about repositories

    Raises:
        ValueError: the source is `"github"`.
        RuntimeError: there is no such function, or a package is missing.

    Example:
        >>> with open("hubconf.py", "w") as file:
        ...     _ = file.write("def half(x):\\n    'A half of it.'\\n    return x / 2\\n")
        >>> facula.hub.load(".", "half", 3.0, source="local")
        1.5
    """
    entry = _entry("hub.load", repo_or_dir, model, source)
    with _importable(repo_or_dir):
        return entry(*args, **kwargs)


class _Progress:
    """A count of what is done, shown on a terminal; the part of `tqdm` that downloads use."""

    def __init__(
        self,
        total: float | None = None,
        disable: bool = False,
        unit: str = "",
        *args: object,
        **options: object,
    ) -> None:
        self.total, self.n, self.unit = total, 0.0, unit
        self.disable = disable or not sys.stderr.isatty()

    def update(self, n: float) -> None:
        """Counts `n` more."""
        self.n += n
        if not self.disable:
            of = f" of {self.total}" if self.total is not None else ""
            print(f"\r{self.n:.0f}{of} {self.unit}", end="", file=sys.stderr)

    def set_description(self, *args: object, **options: object) -> None:
        """Titles are not shown."""

    def close(self) -> None:
        """Ends the line."""
        if not self.disable:
            self.disable = True
            print(file=sys.stderr)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def __getattr__(name: str) -> Any:
    """`tqdm`: that of the package where it is installed, else a plain count."""
    if name == "tqdm":
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return _Progress
        return tqdm
    raise _no_attribute(__name__, name)
