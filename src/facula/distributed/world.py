"""The process groups of this program: the default one, and those made of its ranks.

Takes: how processes find each other (environment, an address, a file, a store). Gives:
`init_process_group`, `new_group`, questions about groups, `destroy_process_group`.
Keeps true: groups are numbered in the order in which all ranks make them, so that numbers agree; a
world of one process opens no connection.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from facula import core
from facula.core import config
from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.devices import load
from facula.distributed import engines, nvidia, starters
from facula.distributed.engine import Alone, Engine, Rendezvous
from facula.distributed.group_state import States
from facula.distributed.process_group import ProcessGroup
from facula.distributed.rendezvous import DEFAULT_TIMEOUT, meet, release_store
from facula.distributed.stores import HashStore, PrefixStore, Store, seconds_of


class _Members(type):
    """What makes `GroupMember.WORLD` the default group."""

    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802 - PyTorch's name
        """The default group, once there is one."""
        return _STATE.default

    @WORLD.setter
    def WORLD(cls, value: Any) -> None:  # noqa: N802
        _STATE.default = value


class GroupMember(metaclass=_Members):
    """What stands for a group that this process is no member of.

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.new_group([0]) is dist.GroupMember.NON_GROUP_MEMBER
        False
        >>> dist.destroy_process_group()
    """

    NON_GROUP_MEMBER = -100


class _Group:
    """`group.WORLD`: the default group."""

    @property
    def WORLD(self) -> ProcessGroup | None:  # noqa: N802 - PyTorch's name
        """The default group, once there is one."""
        return _STATE.default

    @WORLD.setter
    def WORLD(self, value: Any) -> None:  # noqa: N802
        _STATE.default = value


group = _Group()


_STATE = States()
#: what hears of groups that were made: tables that a program keeps itself
WATCHERS: list[Callable[[ProcessGroup, Store], None]] = []


def is_available() -> bool:
    """Whether process groups can be made: they need sockets only, which are everywhere.

    Example:
        >>> facula.distributed.is_available()
        True
    """
    return True


def is_gloo_available() -> bool:
    """Whether the backend of processors is there; it goes by gloo's name.

    Example:
        >>> facula.distributed.is_gloo_available()
        True
    """
    return True


def is_mpi_available() -> bool:
    """Whether what the backend on MPI stands on is installed (`pip install facula[mpi]`).

    Example:
        >>> facula.distributed.is_mpi_available() in (True, False)
        True
    """
    return importlib.util.find_spec("mpi4py") is not None


def is_nccl_available() -> bool:
    """Whether what the backend on NCCL stands on is there: NCCL (`pip install facula[nccl]`) and a driver of CUDA.

    Example:
        >>> facula.distributed.is_nccl_available() in (True, False)
        True
    """
    return nvidia.is_there()


def is_ucc_available() -> bool:
    """Whether there is a backend on UCC.

    Example:
        >>> facula.distributed.is_ucc_available()
        False
    """
    return False


def is_xccl_available() -> bool:
    """Whether there is a backend on XCCL.

    Example:
        >>> facula.distributed.is_xccl_available()
        False
    """
    return False


def is_backend_available(backend: str) -> bool:
    """Whether process groups can be made with a backend.

    Args:
        backend: its name

    Example:
        >>> facula.distributed.is_backend_available("gloo")
        True
    """
    name = backend.lower()
    return is_mpi_available() if name == engines.Backend.MPI else engines.is_known(name)


def is_torchelastic_launched() -> bool:
    """Whether a launcher such as `facula.distributed.run` started this process.

    Example:
        >>> facula.distributed.is_torchelastic_launched()
        False
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_initialized() -> bool:
    """Whether the default process group has been made.

    Example:
        >>> facula.distributed.is_initialized()
        False
    """
    return _STATE.default is not None


def get_default_backend_for_device(device: core.device | str | int | None) -> str:
    """The backend for tensors of a device.

    Args:
        device: a device, or the name of its type

    Example:
        >>> facula.distributed.get_default_backend_for_device("cpu")
        'gloo'
    """
    kind = getattr(device, "type", str(device)).split(":")[0]
    if kind != "cpu":
        fail(ValueError, "get_default_backend_for_device", "a device with a backend was required "
             "(Default backend not registered for device)", kind,
             hint="move the tensors to the cpu")  # fmt: skip
    return engines.DEFAULT


def _backend(name: str | None) -> str:
    """The backend that a name asks for; `cpu:gloo,cuda:nccl` names one for each device."""
    if name is None or name in ("", engines.Backend.UNDEFINED):
        return engines.DEFAULT
    chosen = [part.rpartition(":")[2].lower() for part in str(name).split(",")]
    found = next((one for one in chosen if engines.is_known(one)), chosen[0])
    engines.find(found)  # an error where there is none
    return found


def _engine(name: str) -> Engine:
    """This process's end of an engine; all processes ask for it at the same time."""
    made = _STATE.engines.get(name)
    if made is None:
        met = _STATE.rendezvous
        assert met is not None, "processes meet before they ask for an engine"
        if met.size == 1 and not getattr(engines.find(name), "serves_one", False):
            made = Alone(met)
        else:
            made = engines.make(name, replace(met, store=PrefixStore(name, met.store)))
        made.status = _STATE.status
        _STATE.engines[name] = made
    return made


def _given_store(store: Store, rank: int, world_size: int) -> Store:
    if rank < 0 or world_size < 1:
        fail(AssertionError, "init_process_group", "rank and world_size were required with a store",
             f"rank={rank}, world_size={world_size}", hint="pass both to init_process_group()")  # fmt: skip
    return store


#: how often this process made its default group
_TIMES = [0]


def _prefix() -> str:
    """What keys of the default group begin with: a store that outlives a group is used by the next."""
    _TIMES[0] += 1
    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return f"facula/{_TIMES[0]}" if kept else "facula"


def _check_beginning(init_method: object, store: object, limit: object) -> None:
    if _STATE.default is not None:
        fail(ValueError, "init_process_group", "no process group was required (trying to initialize the "
             "default process group twice!)", "one that is there",
             hint="call destroy_process_group() first")  # fmt: skip
    if store is not None and init_method is not None:
        fail(AssertionError, "init_process_group", "either store or init_method was required (Cannot "
             "specify both init_method and store.)", "both", hint="leave one of them out")  # fmt: skip
    _check_timeout(limit, "init_process_group")


def _check_timeout(limit: object, op: str) -> None:
    """Raise unless it is a time that may pass."""
    if not isinstance(limit, datetime.timedelta):
        fail(TypeError, op, "a datetime.timedelta was required (Expected timeout argument to be of type "
             "datetime.timedelta)", type(limit).__name__, hint="datetime.timedelta(minutes=5)")  # fmt: skip
    if limit < datetime.timedelta(0):
        fail(RuntimeError, op, "a timeout of 0 or more was required (Invalid timeout)", limit,
             hint="datetime.timedelta(minutes=5)")  # fmt: skip


def _check_device(given: object, backend: str) -> None:
    """Raise where a process is bound to a device that is not there."""
    if given is None or backend == "nccl":  # whose arrays are other packages', and their devices
        return
    kind = given if isinstance(given, int) else core.device(given).type
    if kind == "cpu" or not load(str(kind)):
        fail(ValueError, "init_process_group", "an accelerator that is there was required as device_id "
             f"(device_id {given} does not match the current compilation's accelerator support)", given,
             hint="leave device_id out where tensors lie in the processor's memory")  # fmt: skip


def _found_store(
    backend: str, init_method: str | None, store: Store | None, rank: int, world_size: int, limit: datetime.timedelta
) -> tuple[Store, int, int]:  # fmt: skip
    """The store through which ranks find each other, which one this is and how many there are."""
    if store is None and init_method is None and backend == "fake":
        store = HashStore()  # nobody else reads it
    if store is not None:
        return _given_store(store, rank, world_size), rank, world_size
    own = getattr(engines.find(backend), "meet", None)
    if own is None or init_method is not None or os.environ.get("MASTER_ADDR"):
        found, rank, world_size = meet(init_method, rank, world_size, limit)
    else:  # an engine that knows its ranks
        found, rank, world_size = own(limit.total_seconds())
    _STATE.met = found
    return found, rank, world_size


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
    *,
    allow_remote: bool | None = None,
) -> None:
    """Make the default process group; every process calls this once.

    Args:
        backend: the engine: "gloo" for one machine, "mpi" for several (`pip install facula[mpi]`), or one
            that `Backend.register_backend` or an installed package made known. None takes gloo.
        init_method: `env://` (the default: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT),
            `tcp://host:port`, or `file:///path`.
        timeout: how long a collective may take before it is an error.
        world_size, rank: how many processes there are, and which one this is; -1 where `init_method` says it.
        store: instead of `init_method`, with `rank` and `world_size`.
        group_name, pg_options: kept for PyTorch's API; they change nothing.
        device_id: the accelerator that this process uses; it must be there.
        allow_remote: whether gloo may span machines (default: the setting FACULA_ALLOW_REMOTE).

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_rank(), dist.get_world_size()
        (0, 1)
        >>> dist.destroy_process_group()
    """
    limit = timeout or DEFAULT_TIMEOUT
    _check_beginning(init_method, store, limit)
    chosen = _backend(backend)
    _check_device(device_id, chosen)
    found, rank, world_size = _found_store(chosen, init_method, store, rank, world_size, limit)
    log = get_logger("distributed")
    if not 0 <= rank < world_size:
        fail(
            ValueError,
            "init_process_group",
            f"a rank in [0, {world_size}) was required",
            rank,
            hint="ranks count from 0",
        )
    _STATE.store = PrefixStore(_prefix(), found)
    log.info("rank %d of %d found its store %s", rank, world_size, type(found).__name__)
    seconds = limit.total_seconds()
    _STATE.rendezvous = Rendezvous(
        _STATE.store, rank, world_size, seconds, getattr(found, "local_address", "127.0.0.1"),
        config.get("allow_remote") if allow_remote is None else allow_remote,
    )  # fmt: skip
    _STATE.made, _STATE.backend = 1, chosen
    try:
        _STATE.default = _made(chosen, range(world_size), rank, 0, "0", seconds, "default_pg")
    except BaseException:
        _forget()
        raise
    log.info(
        "process group initialised: backend %s, rank %d, world size %d", chosen, rank, world_size
    )


def _made(
    backend: str,
    ranks: Sequence[int],
    me: int,
    number: int,
    name: str,
    seconds: float,
    desc: str | None = None,
) -> ProcessGroup:
    """A group of an engine that all groups share, or the one that a program's function gives for these ranks."""
    group, store = None, PrefixStore(f"group {name}", _STATE.store)
    if engines.serves_groups(backend) and backend not in _STATE.engines:
        own = replace(
            _STATE.rendezvous,
            store=store,
            rank=list(ranks).index(me),
            size=len(ranks),
            seconds=seconds,
        )
        found = engines.find(backend)(own)
        if isinstance(found, ProcessGroup):
            group = found
            group.joined(ranks, number, name, backend, seconds, store)
        else:
            _STATE.engines[backend] = engines.checked(found, backend)
            found.status = _STATE.status
    if group is None:
        group = ProcessGroup(_engine(backend), ranks, me, number, name, backend, seconds, desc)
    _STATE.groups[number] = group
    for told in WATCHERS:
        told(group, store)
    return group


def default_group() -> ProcessGroup:
    """The default group; raises where there is none."""
    found = _STATE.default_group()
    if found is None:
        fail(
            ValueError,
            "distributed",
            "a process group was required (Default process group has not been initialized)",
            "none",
            "call init_process_group first",
        )
    return found


def groups() -> list[ProcessGroup]:
    """The groups in which this process is, the default one first."""
    return [group for _, group in sorted(_STATE.groups.items())]


def group_of(given: Any) -> ProcessGroup | None:
    """The group that an argument means; None where this process is no member."""
    if given is None:
        return default_group()
    return None if given == GroupMember.NON_GROUP_MEMBER else given


def own_group(given: Any, op: str) -> ProcessGroup:
    """The group that an argument means; raises where this process is no member: it may be taken for no other one."""
    found = group_of(given)
    if found is None:
        fail(ValueError, op, "a group with this process among its ranks was required", "GroupMember.NON_GROUP_MEMBER",
             hint="call it on the group's ranks only, those where get_rank(group) is not -1")  # fmt: skip
    return found


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
) -> Any:
    """A group of some ranks. All processes call this in the same order, members or not.

    Args:
        ranks: numbers of the world; None for all
        timeout: how long it may take; None for the group's time
        backend: the engine; None for the default group's
        pg_options: kept for PyTorch's API
        use_local_synchronization: whether only members call this
        group_desc: a text that describes it
        device_id: kept for PyTorch's API

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> few = dist.new_group([0])
        >>> dist.get_world_size(few)
        1
        >>> dist.destroy_process_group()
    """
    world = default_group()
    if timeout is not None:
        _check_timeout(timeout, "new_group")
    chosen: list[Any] = list(range(world.size()) if ranks is None else ranks)
    if not all(hasattr(rank, "__index__") for rank in chosen):
        fail(TypeError, "new_group", "ranks were required", chosen, hint="[0, 1] are the first two")
    chosen.sort()
    if len(set(chosen)) != len(chosen):
        fail(
            ValueError,
            "new_group",
            "different ranks were required",
            chosen,
            hint="name every rank once",
        )
    if chosen and not (chosen[0] >= 0 and chosen[-1] < world.size()):
        fail(ValueError, "new_group", f"ranks in [0, {world.size()}) were required (The new group's rank "
             "should be within the world_size set by init_process_group)", chosen,
             hint="ranks count from 0 to get_world_size() - 1")  # fmt: skip
    number, _STATE.made = _STATE.made, _STATE.made + 1
    name = _backend(backend or _STATE.backend)
    if not engines.serves_groups(name):
        _engine(name)  # all ranks begin it together
    if world.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    seconds = seconds_of(timeout, world.seconds)
    return _made(name, chosen, world.rank(), number, str(number), seconds, group_desc)


def new_subgroups(
    group_size: int | None = None, group: ProcessGroup | None = None, timeout: object = None, backend: object = None,
    pg_options: object = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The world in groups of equal size: this rank's, and all.

    Args:
        group_size: ranks in each group; None for those of a machine
        group: the ranks; None for all
        timeout: how long it may take; None for the group's time
        backend: the engine; None for the default group's
        pg_options: kept for PyTorch's API
        group_desc: a text that describes it

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mine, every = dist.new_subgroups(1)
        >>> len(every)
        1
        >>> dist.destroy_process_group()
    """
    size = default_group().size()
    group_size = size if group_size is None else group_size
    if group_size < 1 or size % group_size:
        fail(
            ValueError,
            "new_subgroups",
            f"a size that divides {size} was required",
            group_size,
            hint="group_size=1 gives every rank a group of its own",
        )
    lists = [list(range(i, i + group_size)) for i in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: Any = None, backend: Any = None,
    pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups of the ranks in each list: this rank's (None without one), and all.

    Args:
        ranks_per_subgroup_list: the ranks of each group
        timeout: how long it may take; None for the group's time
        backend: the engine; None for the default group's
        pg_options: kept for PyTorch's API
        group_desc: a text that describes it

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mine, every = dist.new_subgroups_by_enumeration([[0]])
        >>> dist.get_rank(mine)
        0
        >>> dist.destroy_process_group()
    """
    made, mine = [], None
    for ranks in ranks_per_subgroup_list:
        one = new_group(ranks, timeout, backend, pg_options)
        made.append(one)
        mine = one if get_rank() in ranks else mine
    return mine, made


def get_pg_count() -> int:
    """How many groups this process is a member of.

    Example:
        >>> facula.distributed.get_pg_count()
        0
    """
    return len(_STATE.groups)


def split_group(
    parent_pg: object = None, split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: datetime.timedelta | None = None, pg_options: object = None,
    group_desc: str | None = None, backend: Any = None,
) -> Any:  # fmt: skip
    """Groups of a group's ranks; only its members call this, all with the same lists. Gives this rank's.

    Args:
        parent_pg: the group; None for all
        split_ranks: the ranks of each part, numbers of the group; none is in two
        timeout: how long a collective may take; None for the group's time
        pg_options: kept for PyTorch's API
        group_desc: a text that describes it
        backend: the engine; None for the group's

    Returns: None where no list has this rank.

    Raises:
        ValueError: a list is empty, or a rank is in two or not of the group.

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.split_group(split_ranks=[[0]]).size()
        1
        >>> dist.destroy_process_group()
    """
    parent = group_of(parent_pg)
    if parent is None:
        return None
    lists = [sorted(part) for part in split_ranks or []]
    every = [rank for part in lists for rank in part]
    if not lists or not all(lists) or len(set(every)) != len(every) or not set(every) <= set(
        range(parent.size())
    ):  # fmt: skip
        fail(ValueError, "split_group", f"lists of ranks in [0, {parent.size()}), each in one of them, were "
             "required (the split group cannot be empty)", split_ranks,
             hint="ranks are numbers of the group that is split")  # fmt: skip
    parent.splits += 1
    mine = next((part for part in lists if parent.rank() in part), None)
    if mine is None:
        return None
    # others than the members do not count: a number that these alone agree on
    text = f"{parent.number} {parent.splits} {mine}"
    number = 1 << 31 | zlib.crc32(text.encode()) >> 1
    name = _backend(backend) if backend else parent.backend_name
    me = parent.ranks[parent.rank()]
    ranks, seconds = [parent.ranks[r] for r in mine], seconds_of(timeout, parent.seconds)
    return _made(name, ranks, me, number, f"split {number}", seconds, group_desc)


def get_rank(group: ProcessGroup | None = None) -> int:
    """This process's number in a group; -1 where it is no member.

    Args:
        group: the ranks; None for all

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_rank()
        0
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    return -1 if found is None else found.rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many ranks a group has; -1 where this process is no member.

    Args:
        group: the ranks; None for all

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_world_size()
        1
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    return -1 if found is None else found.size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name of a group's backend.

    Args:
        group: the ranks; None for all

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_backend()
        'gloo'
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        fail(ValueError, "get_backend", "a group of this process was required (Invalid process group "
             "specified)", "another", hint="ask on the ranks of the group only")  # fmt: skip
    return found.backend_name


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The ranks of a group in the world.

    Args:
        group: the ranks; None for all

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_process_group_ranks(None)
        [0]
        >>> dist.destroy_process_group()
    """
    return list(own_group(group, "get_process_group_ranks").ranks)


def get_global_rank(group: ProcessGroup | None, group_rank: int) -> int:
    """A rank of a group, in the world.

    Args:
        group: the ranks; None for all
        group_rank: a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_global_rank(dist.new_group([0]), 0)
        0
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None or not 0 <= group_rank < found.size():
        fail(
            ValueError,
            "get_global_rank",
            "a rank of the group was required",
            group_rank,
            hint="ranks of a group count from 0",
        )
    return found.ranks[group_rank]


def get_group_rank(group: ProcessGroup | None, global_rank: int) -> int:
    """A rank of the world, in a group.

    Args:
        group: the ranks; None for all
        global_rank: a number of the world

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_group_rank(dist.new_group([0]), 0)
        0
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None or global_rank not in found.ranks:
        fail(ValueError, "get_group_rank", "a rank of the group was required (Global rank is not part of "
             "group)", global_rank, hint="get_process_group_ranks(group) lists them")  # fmt: skip
    return found.ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number on its machine, as the launcher said.

    Args:
        fallback_rank: what is given without a launcher; None for an error

    Raises:
        RuntimeError: no launcher said it, and there is no fallback.

    Example:
        >>> facula.distributed.get_node_local_rank(fallback_rank=0)
        0
    """
    text = starters.value("LOCAL_RANK")
    if text is not None:
        return int(text)
    if fallback_rank is None:
        fail(RuntimeError, "get_node_local_rank", "the environment variable LOCAL_RANK was required",
             "none", hint="pass fallback_rank for programs that no launcher started")  # fmt: skip
    return fallback_rank


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forget a group; the default one with all others, and close the connections.

    Args:
        group: None for all

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.is_initialized()
        True
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return
    if found is not _STATE.default:
        found.close()
        _STATE.groups.pop(found.number, None)
        return
    for one in _STATE.groups.values():
        one.close()
    _forget()
    get_logger("distributed").info("process group destroyed")


def _forget() -> None:
    """Close the engines and the store, and be as before the start."""
    for engine in _STATE.engines.values():
        engine.close()
    if _STATE.met is not None:
        release_store(_STATE.met)
    _STATE.reset()
