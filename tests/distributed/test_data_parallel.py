"""`DistributedDataParallel` in all its forms equals one process; unequal inputs, hooks of the exchange."""

from __future__ import annotations

import numpy as np
import ranks


def run(program: str) -> list:
    return ranks.run(program, 2, script="data_parallel_programs.py")


def test_every_form_trains_as_one_process_does():
    for found in run("kinds"):
        for name in ("plain", "small", "views", "static", "unused", "both"):
            assert found[name] < 1e-6, name
        # where no parameter is left out, buckets are cut again in the order of arrival
        assert found["small rebuilt"] == found["both rebuilt"] == 1 and found["unused rebuilt"] == 0
        assert found["shares"] == found["buckets"] > 1  # gradients lie in the buckets


def test_sparse_gradients_are_added():
    """They were refused."""
    for found in run("tables"):
        sparse, total = found["sum"]
        assert sparse and total == [[0, 1], [0, 0], [0, 0], [2 + 4, 3 + 5]]
        for static in (False, True):
            table, weight, sparse, grad = found[f"static {static}"]
            wanted = np.zeros(np.shape(table))
            for rank in (0, 1):
                for row in (rank, 2, 4):  # of the last step
                    wanted[row] += np.array(weight[0]) / 2
            assert sparse
            np.testing.assert_allclose(grad, wanted, rtol=1e-6)


def test_ranks_without_inputs_shadow_the_others():
    for found in run("uneven"):
        assert found["equal"] == 0 and found["expected"] < 1e-6
        assert "exhausted inputs" in found["throws"]


def test_hooks_exchange_what_they_say():
    first, second = run("exchanges")
    for found in (first, second):
        assert found["ALLREDUCE"] < 1e-6 and found["in backward"] < 1e-6 and found["zero"] < 1e-6
        assert 0 < found["BF16_COMPRESS"] < 1e-3
        assert 0 < found["QUANTIZE_PER_TENSOR"] < 2e-3 and 0 < found["QUANTIZE_PER_CHANNEL"] < 2e-3
        assert 0 < found["BATCHED_POWER_SGD"] < 0.05 and found["nested"] is True
    (a, b, c), (d, e, f) = first["averaged"], second["averaged"]
    assert a != d and abs(b - e) < 1e-4 and abs(c - f) < 1e-4
