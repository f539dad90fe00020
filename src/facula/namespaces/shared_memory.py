"""Memory that processes share: where it comes from, and how another process gets at it.

Takes: numbers of bytes, and storages. Gives: fresh shared memory to `share_memory_`, and the
reductions by which `multiprocessing` sends tensors and storages.
Keeps true: what is sent is the memory, not a copy of it; the same memory is one storage in a
process, however often it arrives; memory without a name is freed by the system, a named file is
removed by the last process that lets go of it, also at its end. A file whose message nobody took
goes when its family of processes ends: forked children and those of `multiprocessing` with the
process that began them.
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from collections.abc import Callable
from multiprocessing import util as process_util
from multiprocessing.process import parent_process
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from facula import core
from facula.core import UntypedStorage
from facula.core.errors import fail

from .storage import TypedStorage

__all__ = ["STRATEGIES", "fresh", "reserve", "set_strategy", "strategy"]

#: how memory is passed on: by an open descriptor, or by the name of a file
STRATEGIES = ("file_descriptor", "file_system")
_FOLDER = "/dev/shm"
_PREFIX = "facula-shared-"
#: bytes in front of the data of a named file; the first eight count the processes
_FRONT = 64
_chosen = STRATEGIES[0]
_numbers = iter(range(1 << 62))
#: memory that is mapped here, by device and number of its file
_MAPPED: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()


def strategy() -> str:
    """How memory that is shared from now on is passed to other processes."""
    return _chosen


def set_strategy(name: str) -> None:
    """Choose among `STRATEGIES`."""
    global _chosen
    _chosen = name


# ------------------------------------------------------------------ fresh memory


def reserve(descriptor: int, nbytes: int) -> None:
    """Give a file its size and the room for it now; closes it where there is none.

    Running out of room later would end the process.
    """
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, nbytes)
        else:
            os.ftruncate(descriptor, nbytes)
    except BaseException:
        os.close(descriptor)
        raise


def _check_size(descriptor: int, nbytes: int) -> None:
    """Refuse a file that is too short: to read behind its end would end the process."""
    found = os.fstat(descriptor).st_size
    if found < nbytes:
        fail(
            RuntimeError,
            "multiprocessing",
            f"a file of {nbytes} bytes was required",
            f"one of {found} bytes",
            hint="the message is not one that this library sent",
        )


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def fresh(nbytes: int) -> Any:
    """Memory that other processes can map."""
    try:
        return _fresh_file(nbytes) if _chosen == "file_system" else _fresh_descriptor(nbytes)
    except OSError as error:
        many = error.errno in (errno.EMFILE, errno.ENFILE)
        fail(
            RuntimeError,
            "share_memory_",
            f"{nbytes} bytes of shared memory were required",
            str(error),
            hint="multiprocessing.set_sharing_strategy('file_system') needs no open files"
            if many
            else "share less, or give /dev/shm more room",
        )


def _fresh_descriptor(nbytes: int) -> Any:
    descriptor = os.memfd_create("facula", os.MFD_CLOEXEC)
    reserve(descriptor, nbytes)
    return _on_descriptor(descriptor, nbytes)


def _on_descriptor(descriptor: int, nbytes: int) -> Any:
    """Memory that holds `descriptor` open, which others are given."""
    try:
        _check_size(descriptor, nbytes)
        memory: Any = core.SharedMemory(descriptor, nbytes)
    except BaseException:
        os.close(descriptor)
        raise
    memory.descriptor = descriptor
    weakref.finalize(memory, os.close, descriptor).atexit = False
    _MAPPED[_identity(descriptor)] = memory
    return memory


def _fresh_file(nbytes: int) -> Any:
    _sweep()
    made = f"{_family()}-{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"
    path = f"{_FOLDER}/{_PREFIX}{_namespace()}-{made}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        reserve(descriptor, nbytes + _FRONT)
    except BaseException:
        os.unlink(path)
        raise
    memory = _on_file(descriptor, path, nbytes)
    memory.count(1)
    return memory


def _on_file(descriptor: int, path: str, nbytes: int) -> Any:
    """Memory that is one of those that the file counts; closes the descriptor."""
    try:
        _check_size(descriptor, nbytes + _FRONT)
        memory: Any = core.SharedMemory(descriptor, nbytes, _FRONT)
        memory.path = path
        # the count is kept by a mapping of its own: the memory is gone when its end is heard of
        memory.counter = core.SharedMemory(descriptor, 8, 8)
        _hold(memory)
        _MAPPED[_identity(descriptor)] = memory
    finally:
        os.close(descriptor)
    return memory


def _hold(memory: Any) -> None:
    """Count the process out when it lets go of memory with a name."""
    process_util.Finalize(memory, _let_go, (memory.counter, memory.path), exitpriority=-50)


def _let_go(counter: Any, path: str) -> None:
    """One process less; the last one removes the file."""
    if counter.count(-1) == 0:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def _namespace() -> int:
    """Which processes the numbers of processes speak of: those of a container are others."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


_first = 0


def _family() -> int:
    """The process whose end ends what its children have sent, too."""
    global _first
    if _first == 0:  # not at import: a new process learns of its parent after that
        _first = getattr(parent_process(), "pid", None) or os.getpid()
    return _first


_swept = False


def _sweep() -> None:
    """Remove what killed processes left behind, once in a process."""
    global _swept
    if not _swept:
        _swept = True
        _remove_left(lambda process: not os.path.exists(f"/proc/{process}"))


def _at_end() -> None:
    """Remove what the family leaves behind at the end of this process."""
    own = os.getpid()
    _remove_left(lambda process: process == own or not os.path.exists(f"/proc/{process}"))


def _remove_left(is_gone: Callable[[int], bool]) -> None:
    """Remove the files of families that are gone, with their makers, where nobody else maps them."""
    try:
        old = [e.path for e in os.scandir(_FOLDER) if _is_left(e, is_gone)]
    except OSError:
        return
    used = _mapped_files() if old else set()
    for path in old:
        if path not in used:
            try:
                os.unlink(path)
            except OSError:
                continue


def _is_left(entry: os.DirEntry[str], is_gone: Callable[[int], bool]) -> bool:
    """Whether nobody is there who could pass the file on."""
    if not entry.name.startswith(f"{_PREFIX}{_namespace()}-"):
        return False
    try:
        family, maker = map(int, entry.name[len(_PREFIX) :].split("-")[1:3])
        return is_gone(family) and is_gone(maker) and entry.stat().st_uid == os.getuid()
    except (OSError, ValueError):
        return False


def _mapped_files() -> set[str]:
    """The files of ours that some other process maps."""
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/maps") as lines:
                for line in lines:
                    _, slash, rest = line.rstrip("\n").partition(f"{_FOLDER}/{_PREFIX}")
                    if slash:
                        found.add(slash + rest)
        except OSError:
            continue
    return found


# ------------------------------------------------------------------ forks


def _named_memory() -> list[Any]:
    return [m for m in _MAPPED.values() if hasattr(m, "path")]


def _before_fork() -> None:
    """The child has what is mapped here: it is counted before its parent can let go."""
    _family()
    for memory in _named_memory():
        memory.count(1)


def _in_child(_: object = None) -> None:
    """Finalizers of a parent do not run in its child, and Python's own processes drop them."""
    for memory in _named_memory():
        _hold(memory)
    process_util.Finalize(None, _at_end, exitpriority=-60)


# ------------------------------------------------------------------ sending


def _open_descriptor(duplicate: Any, nbytes: int) -> UntypedStorage:
    descriptor = duplicate.detach()
    known = _MAPPED.get(_identity(descriptor))
    if known is not None:
        os.close(descriptor)
        return known.storage()
    return _on_descriptor(descriptor, nbytes).storage()


def _named(path: str) -> int:
    """Open a file of ours, and no other: what is mapped is counted in, which writes to it."""
    if os.path.dirname(path) == _FOLDER and os.path.basename(path).startswith(_PREFIX):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    return fail(
        RuntimeError,
        "multiprocessing",
        f"a file of shared memory, {_FOLDER}/{_PREFIX}..., was required",
        repr(path),
        hint="the message is not one that this library sent",
    )


def _open_file(path: str, nbytes: int) -> UntypedStorage:
    descriptor = _named(path)
    known = _MAPPED.get(_identity(descriptor))
    if known is None:
        return _on_file(descriptor, path, nbytes).storage()  # the sender has counted it
    os.close(descriptor)
    known.count(-1)
    return known.storage()


def _open_user_file(path: str, nbytes: int) -> UntypedStorage:
    return UntypedStorage.from_file(path, True, nbytes)


def _empty_storage() -> UntypedStorage:
    return UntypedStorage(0).share_memory_()


def _reduce_storage(storage: UntypedStorage) -> Any:
    """What another process makes the same storage of."""
    if storage.device.type != "cpu":
        return storage.__reduce__()
    storage.share_memory_()
    memory = core.shared_memory_of(storage)
    if memory is None:
        return _empty_storage, ()
    if hasattr(memory, "descriptor"):
        return _open_descriptor, (DupFd(memory.descriptor), memory.nbytes)
    if hasattr(memory, "path"):
        memory.count(1)  # for the one that will open it
        return _open_file, (memory.path, memory.nbytes)
    return _open_user_file, (os.path.abspath(memory.filename), memory.nbytes)


def _one_storage(tensor: core.Tensor) -> UntypedStorage:
    """The storage as the same object for all tensors of a message, so that it is sent once."""
    # of the tensor, not of its storage: a tensor that alone lies on it is moved without a search for others
    storage = core.Tensor.share_memory_(tensor).untyped_storage()
    memory = core.shared_memory_of(storage)
    if memory is None:
        return storage
    known = getattr(memory, "shown", None)
    found = known() if known is not None else None
    if found is None:
        found = storage
        memory.shown = weakref.ref(storage)
    return found


def _reduce_typed(storage: TypedStorage) -> tuple[Any, tuple[Any, ...]]:
    return _typed, (type(storage), storage._untyped_storage, storage.dtype)


def _typed(kind: object, memory: UntypedStorage, dtype: core.dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=memory, dtype=dtype)


def _reduce_tensor(tensor: core.Tensor) -> Any:
    if tensor.requires_grad and not tensor.is_leaf:
        fail(
            RuntimeError,
            "multiprocessing",
            "a tensor without history was required: Cowardly refusing to serialize non-leaf "
            "tensor which requires_grad, since autograd does not support crossing process "
            "boundaries",
            hint="send x.detach()",
        )
    if tensor.device.type != "cpu":
        return tensor.__reduce_ex__(2)
    geometry = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
    attributes = dict(tensor.__dict__) if tensor.__dict__ else None
    return _tensor, (
        _one_storage(tensor), tensor.dtype, geometry, tensor.requires_grad, attributes,
    )  # fmt: skip


def _tensor(
    memory: UntypedStorage,
    dtype: core.dtype,
    geometry: tuple[Any, ...],
    requires_grad: bool,
    attributes: Any,
) -> Any:
    made = core.empty((0,), dtype=dtype, device="cpu").set_(memory, *geometry)
    if requires_grad:
        made.requires_grad_()
    for name, value in (attributes or {}).items():
        setattr(made, name, value)
    return made


core.SHARED_MEMORY[0] = fresh
process_util.Finalize(None, _at_end, exitpriority=-60)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)
    process_util.register_after_fork(_MAPPED, _in_child)
ForkingPickler.register(core.Tensor, _reduce_tensor)
ForkingPickler.register(UntypedStorage, _reduce_storage)
ForkingPickler.register(TypedStorage, _reduce_typed)
