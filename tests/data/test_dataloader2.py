"""DataLoader2: the same order whatever reads, a state goes on exactly, nothing outlives it."""

import json
import multiprocessing
import os
import subprocess
import sys

import pytest

from facula.data import dataloader2
from facula.data.dataloader2 import (
    DataLoader2,
    InProcessReadingService,
    MultiProcessingReadingService,
    SequentialReadingService,
)
from facula.data.dataloader2.adapter import CacheTimeout, Shuffle
from facula.data.dataloader2.graph import find_dps, list_dps, remove_dp, replace_dp, traverse_dps
from facula.data.datapipes.iter import IterableWrapper, Mapper, Shuffler

SERVICES = {
    "none": lambda: None,
    "in process": InProcessReadingService,
    "no workers": lambda: MultiProcessingReadingService(0),
    "workers": lambda: MultiProcessingReadingService(2),
    "sequential": lambda: SequentialReadingService(MultiProcessingReadingService(2)),
}


def square(value):
    return value * value


def process(value):
    return os.getpid()


def numbers(count=20):
    return IterableWrapper(range(count)).shuffle().sharding_filter().map(square)


@pytest.mark.parametrize("service", SERVICES)
def test_an_order_follows_from_the_seed_whatever_reads(service):
    def passes(seed, service=service):
        with DataLoader2(numbers(), reading_service=SERVICES[service]()) as loader:
            loader.seed(seed)
            return list(loader), list(loader)

    first, second = passes(5)
    assert (first, second) == passes(5) == passes(5, "none") != passes(6)
    assert first != second and sorted(first) == sorted(second) == [i * i for i in range(20)]


@pytest.mark.parametrize("service", SERVICES)
def test_a_state_in_the_middle_of_a_pass_goes_on_exactly(service):
    with DataLoader2(numbers(), reading_service=SERVICES[service]()) as loader:
        list(loader)
        values = iter(loader)
        for _ in range(7):
            next(values)
        state = json.loads(json.dumps(loader.state_dict()))
        rest, after = list(values), list(loader)
        ended = loader.state_dict()
    with DataLoader2(numbers(), reading_service=SERVICES[service]()) as other:
        other.load_state_dict(state)
        assert other.state_dict() == state
        assert list(other) == rest and list(other) == after
        assert other.state_dict() == ended
        other.load_state_dict(state)
        assert list(other) == rest


def test_a_state_that_does_not_fit_is_refused():
    loader = DataLoader2(IterableWrapper(range(3)))
    with pytest.raises(ValueError, match="load_state_dict"):
        loader.load_state_dict({"epoch": 1})
    state = {**loader.state_dict(), "number_of_samples_yielded": 9}
    loader.load_state_dict(state)
    with pytest.raises(RuntimeError, match="a pass of at least 9 values"):
        iter(loader)


def test_workers_read_their_shares_and_end():
    service = MultiProcessingReadingService(2)
    loader = DataLoader2(IterableWrapper(range(8)).sharding_filter().map(process), None, service)
    readers = list(loader)
    assert len(set(readers)) == 2 and os.getpid() not in readers and readers[0] == readers[2]
    assert list(loader) == readers  # the same processes read the next pass
    children = {child.pid for child in multiprocessing.active_children()}
    assert set(readers) <= children
    loader.shutdown()
    assert not set(readers) & {child.pid for child in multiprocessing.active_children()}
    with pytest.raises(RuntimeError, match="already been shut down"):
        iter(loader)


def broken(value):
    raise LookupError("sample")


def killed(value):
    os._exit(3)


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [(broken, LookupError, "worker process"), (killed, RuntimeError, "exit code 3")],
)
def test_what_happens_in_a_worker_is_told(function, kind, text):
    pipe = IterableWrapper(range(4)).sharding_filter().map(function)
    loader = DataLoader2(pipe, reading_service=MultiProcessingReadingService(2))
    with pytest.raises(kind, match=text):
        list(loader)
    loader.shutdown()
    assert not multiprocessing.active_children()


def test_functions_of_workers():
    def begin(pipe, info):
        return pipe.enumerate(100 * info.id)

    with DataLoader2(
        IterableWrapper("abcd").sharding_filter(),
        reading_service=MultiProcessingReadingService(2, worker_init_fn=begin),
    ) as loader:
        assert list(loader) == [(0, "a"), (100, "b"), (1, "c"), (101, "d")]


def test_adapters_change_a_copy():
    pipe = IterableWrapper(range(8)).shuffle()
    assert list(DataLoader2(pipe, Shuffle(False))) == list(range(8)) and pipe._enabled
    assert list(DataLoader2(pipe, [Shuffle(True), Shuffle(False)])) == list(range(8))
    cached = IterableWrapper(["a"]).on_disk_cache(filepath_fn=str).end_caching()
    assert DataLoader2(cached, CacheTimeout(7)).datapipe.timeout == 7 and cached.timeout == 300
    with pytest.raises(ValueError, match="greater than zero"):
        CacheTimeout(0)
    with pytest.raises(TypeError, match="Expected `IterDataPipe`"):
        DataLoader2([1, 2])


def test_a_new_pass_ends_the_one_before():
    loader = DataLoader2(IterableWrapper(range(4)))
    old = iter(loader)
    next(old)
    assert list(loader) == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(old)


def test_graphs_are_changed():
    source = IterableWrapper(range(4))
    last = source.shuffle().map(square).batch(2)
    graph = traverse_dps(last)
    (shuffler,) = find_dps(graph, Shuffler)
    assert len(list_dps(graph)) == 4 and list_dps(graph, exclude_dps=shuffler) == [
        last,
        last.datapipe,
    ]
    graph = remove_dp(graph, shuffler)
    assert list(last) == [[0, 1], [4, 9]]
    (mapper,) = find_dps(graph, Mapper)
    replace_dp(graph, mapper, source.map(float))
    assert list(last) == [[0.0, 1.0], [2.0, 3.0]]
    with pytest.raises(RuntimeError, match="a pipe of the graph"):
        replace_dp(graph, shuffler, source)


DISTRIBUTED = """
import sys, facula
from facula import distributed
from facula.data.dataloader2 import *
from facula.data.datapipes.iter import IterableWrapper
rank, port = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group(
    "gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=2, rank=rank
)
pipe = IterableWrapper(range(21)).shuffle().sharding_filter()
service = DistributedReadingService()
if len(sys.argv) > 3:
    service = SequentialReadingService(service, MultiProcessingReadingService(2))
with DataLoader2(pipe, reading_service=service) as loader:
    print(list(loader), flush=True)
distributed.destroy_process_group()
"""


@pytest.mark.parametrize("more", [[], ["workers"]])
def test_processes_of_a_group_share_one_order_and_end_together(more):
    import socket

    with socket.socket() as free:
        free.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # the first process listens there
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        started = [
            subprocess.Popen(
                [sys.executable, "-c", DISTRIBUTED, str(rank), port, *more],
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        shares = [json.loads(each.communicate(timeout=100)[0]) for each in started]
    assert len(shares[0]) == len(shares[1]) == 10  # one of 21 values is left over
    assert len({*shares[0], *shares[1]}) == 20


def test_under_torchdatas_name():
    code = """
import facula; facula.install_as_torch()
import torchdata.datapipes.iter as pipes, torchdata.datapipes as dp
from torchdata.dataloader2 import DataLoader2
from torchdata.dataloader2.adapter import Shuffle
from torchdata.datapipes.map import SequenceWrapper
import torch.utils.data.datapipes as theirs
print(DataLoader2 is facula.data.dataloader2.DataLoader2, pipes is theirs.iter, pipes.CSVParser.__name__)
try:
    import torchdata.nonsense
except ModuleNotFoundError as error:
    print(error.name)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.stdout.split() == ["True", "True", "CSVParserIterDataPipe", "torchdata.nonsense"], (
        run.stderr
    )
    assert dataloader2.__doc__
