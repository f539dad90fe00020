"""Parameters in pieces train as whole ones do."""

from __future__ import annotations

import pytest
import ranks


def run(program: str, size: int = 2, **options) -> list:
    return ranks.run(program, size, script="sharded_programs.py", **options)


@pytest.fixture(scope="module", params=["1", "0"], ids=["in shared memory", "by messages"])
def kinds(request: pytest.FixtureRequest) -> list:
    return run("kinds", environment={"FACULA_SHARED_COLLECTIVES": request.param})


def test_losses_are_those_of_one_process(kinds: list):
    for found in kinds:
        for name in ("plain", "kept", "given back", "columns", "copies", "both", "again"):
            assert found[name] < 1e-12, name


def test_each_rank_has_its_share(kinds: list):
    pieces = [found["share"][0] for found in kinds]
    total = kinds[0]["share"][1]
    assert sum(pieces) == total and max(pieces) < 0.6 * total


def test_dtypes_of_computation_and_of_pieces(kinds: list):
    for found in kinds:
        assert (
            found["half"] == ["facula.bfloat16", "facula.float64"] and found["half losses"] < 0.02
        )


def test_gradients_add_up_and_are_clipped(kinds: list):
    for found in kinds:
        assert found["added up"] < 1e-14 and max(found["clipped"]) < 1e-12


def test_whole_parameters_on_demand(kinds: list):
    for found in kinds:
        assert found["unshard"] == [[5, 6], "Parameter"] and found["reshard"] == "DTensor"
        assert "has not been cut" in found["twice"][1] and "view(1)" in found["number"][1]


def test_parameters_that_not_all_ranks_use():
    first, second = run("uneven")
    for found, rows in ((first, 2), (second, 2)):
        assert found["unused"] == [[0.5, 0.5], True]
        assert found["frozen"] == [True, rows, True]


def test_flat_units_train_as_one_process_does():
    for found in run("flats"):
        for name in (
            "FULL_SHARD",
            "SHARD_GRAD_OP",
            "NO_SHARD",
            "HYBRID_SHARD",
            "original",
            "sized",
            "alone",
        ):
            assert found[name] < 1e-12, name
        assert found["names"] and found["state"] < 1e-12 and found["optim"] == [[7, 5], 14]
        assert found["resumed"] < 1e-12 and found["doubled"] < 1e-12
        assert found["pieces"] == ["(Shard(dim=0),)", [5, 6]]
        assert found["summoned"] == [True, found["summoned"][1]] and found["summoned"][1] == 227
        assert found["gradients"] < 1e-14 and found["norm"] < 1e-12


def test_flat_units_of_special_modules():
    for found in run("flats_more"):
        assert found["tied"] < 1e-12 and found["again"] < 1e-12 and found["added up"] < 1e-14
        assert found["meta"][0] == [1, 4] and found["meta"][1] in (29, 30)
        assert found["half"] == ["facula.bfloat16", "facula.float64", "facula.float64"]
        assert found["wrapped"] and found["names"]
        assert "a mesh of two dimensions" in found["hybrid"][1]


def test_parameters_in_the_place_of_pieces_are_those_that_compute():
    """`load_state_dict(assign=True)` had no effect on what a model computed, or left it on the meta device;
    `reset_parameters` of pieces raised."""
    for found in run("replaced"):
        assert found["other before"] > 0.01
        assert found["meta"] == found["behind forward"] == found["drawn"] == 0.0
        assert "distribute_tensor" in found["whole"][1]
