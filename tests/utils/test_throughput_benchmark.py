"""The throughput of a module from several threads: calls are counted, errors come through."""

import json
import threading

import numpy as np
import pytest

import facula
from facula.utils.throughput_benchmark import ExecutionStats, ThroughputBenchmark, format_time


class Counting(facula.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lock, self.seen, self.threads = threading.Lock(), [], set()

    def forward(self, x, scale=1):
        with self.lock:
            self.seen.append(float(x.sum()) * scale)
            self.threads.add(threading.get_ident())
        return x * scale


def test_all_calls_are_made_with_the_inputs_in_turn() -> None:
    module = Counting()
    bench = ThroughputBenchmark(module)
    bench.add_input(facula.ones(2), scale=3)
    bench.add_input(facula.ones(5))
    stats = bench.benchmark(num_calling_threads=3, num_warmup_iters=2, num_iters=40)
    assert len(module.seen) == 3 * 2 + 40 and len(module.threads) == 3
    assert module.seen.count(6.0) == module.seen.count(5.0) == 23
    assert stats.num_iters == 40 and stats.latency_avg_ms > 0
    assert stats.iters_per_second == pytest.approx(40 / stats.total_time_seconds)
    assert "Total number of iterations: 40" in str(stats)


def test_one_call_gives_the_result() -> None:
    bench = facula.utils.ThroughputBenchmark(facula.nn.Identity())
    np.testing.assert_array_equal(bench.run_once(facula.arange(3)), [0, 1, 2])


def test_a_profile_is_written(tmp_path) -> None:
    bench = ThroughputBenchmark(lambda x: x + x)
    bench.add_input(facula.ones(2))
    path = tmp_path / "trace.json"
    bench.benchmark(num_warmup_iters=0, num_iters=3, profiler_output_path=str(path))
    assert json.loads(path.read_text())["traceEvents"]


@pytest.mark.parametrize("warmup", [0, 1])
def test_an_error_of_a_call_is_raised(warmup) -> None:
    def fails(x):
        raise KeyError("here")

    bench = ThroughputBenchmark(fails)
    bench.add_input(1)
    with pytest.raises(KeyError, match="here"):
        bench.benchmark(num_calling_threads=2, num_warmup_iters=warmup, num_iters=4)


def test_what_is_wrong_is_said() -> None:
    bench = ThroughputBenchmark(len)
    with pytest.raises(RuntimeError, match="inputs were required"):
        bench.benchmark()
    bench.add_input([])
    with pytest.raises(ValueError, match="at least one thread"):
        bench.benchmark(num_calling_threads=0)
    with pytest.raises(ValueError, match="exactly one of"):
        format_time()


def test_times_are_readable() -> None:
    assert [format_time(time_us=2.5), format_time(time_ms=2500), format_time(time_s=3e-10)] == [
        "2.500us",
        "2.500s",
        "0.300ns",
    ]
    assert ExecutionStats(1.0, 10, 2.0, {}).iters_per_second == 5
