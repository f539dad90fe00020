"""facula.utils.benchmark: times, their spread, tables, instruction counts and random inputs."""

import shutil

import pytest

import facula
from facula.utils import benchmark
from facula.utils.benchmark import callgrind


def measurement(times, number=1, **task):
    spec = benchmark.TaskSpec(stmt=task.pop("stmt", "x"), setup="pass", **task)
    return benchmark.Measurement(number, list(times), spec)


def test_figures_of_a_measurement():
    m = measurement([4e-3, 2e-3, 6e-3, 8e-3, 10e-3], number=2)
    assert m.times == [2e-3, 1e-3, 3e-3, 4e-3, 5e-3]
    assert m.median == pytest.approx(3e-3) and m.mean == pytest.approx(3e-3)
    assert m.iqr == pytest.approx(2e-3)
    assert m.has_warnings and not m.meets_confidence()
    assert "WARNING: Interquartile range is 66.7%" in repr(m)


def test_a_steady_measurement_has_many_digits():
    assert measurement([1.0] * 20).significant_figures == 5
    assert measurement([1.0, 2.0] * 10).significant_figures == 1
    text = repr(measurement([3.25e-3], number=1000, label="add", sub_label="64"))
    assert "add: 64" in text and "3.2" in text and " us" in text and "1000 runs" in text


def test_units_and_digits():
    assert benchmark.select_unit(3e-7) == ("ns", 1e-9)
    assert benchmark.select_unit(2e-3) == ("ms", 1e-3)
    assert benchmark.select_unit(50.0) == ("s", 1.0)
    assert benchmark.unit_to_english("us") == "microsecond"
    assert benchmark.trim_sigfig(123.456, 2) == 120.0 and benchmark.trim_sigfig(0.0, 3) == 0.0
    assert benchmark.ordered_unique([3, 1, 3, 2, 1]) == [3, 1, 2]


def test_merge_by_task():
    one, two, other = measurement([2.0], 2), measurement([3.0], 1), measurement([1.0], stmt="y")
    merged = benchmark.Measurement.merge([one, two, other])
    assert [m.times for m in merged] == [[1.0, 3.0], [1.0]]


def test_empty_measurement():
    with pytest.raises(ValueError, match="at least one time"):
        _ = measurement([]).median


def test_timer_runs_the_statement():
    seen = []
    timer = benchmark.Timer("seen.append(k)", setup="k = 3", globals={"seen": seen})
    m = timer.timeit(10)
    assert m.number_per_run == 10 and set(seen) == {3} and len(seen) >= 10


def test_statements_may_name_the_package():
    m = benchmark.Timer("torch.add(x, x); facula.ones(2)", setup="x = torch.ones(3)").timeit(5)
    assert m.median > 0


def test_blocks_reach_the_time_asked_for():
    m = benchmark.Timer("pass").blocked_autorange(min_run_time=0.02)
    assert sum(m.raw_times) >= 0.02 and m.number_per_run > 100
    called = []
    benchmark.Timer("pass").adaptive_autorange(
        min_run_time=0.01, max_run_time=0.1, callback=lambda n, t: called.append((n, t))
    )
    assert called and all(n > 0 and t > 0 for n, t in called)


def test_timer_sets_and_restores_threads():
    before = facula.get_num_threads()
    seen = []
    timer = benchmark.Timer(
        "seen.append(facula.get_num_threads())",
        globals={"seen": seen, "facula": facula},
        num_threads=before + 1,
    )
    timer.timeit(1)
    assert set(seen) == {before + 1} and facula.get_num_threads() == before


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"stmt": 3}, ValueError, "only a `str` stmt"),
        ({"language": "c++"}, NotImplementedError, "statement in Python"),
        ({"global_setup": "#include"}, ValueError, "C\\+\\+ only"),
    ],
)
def test_wrong_timers(options, error, match):
    with pytest.raises(error, match=match):
        benchmark.Timer(**options)
    with pytest.raises(NotImplementedError, match="blocked_autorange"):
        benchmark.Timer().autorange()


def test_table():
    results = [
        measurement([1e-3] * 8, label="add", sub_label="small", description="facula"),
        measurement([4e-3] * 8, label="add", sub_label="small", description="other"),
        measurement([2e-3] * 8, label="add", sub_label="large", description="facula"),
        measurement([3.0] * 8, label="mul", sub_label="small", description="facula", num_threads=2),
    ]
    compare = benchmark.Compare(results)
    first, second = str(compare).split("\n\nTimes are in milliseconds (ms).\n\n")
    rows = [line.split() for line in first.splitlines()]
    assert rows[1] == ["|", "facula", "|", "other"]
    assert ["small", "|", "1.0", "|", "4.0"] in rows and ["large", "|", "2.0", "|"] in rows
    assert "2 threads" in second and second.endswith("Times are in seconds (s).")
    compare.colorize(rowwise=True)
    assert "\033[92m" in str(compare)
    with pytest.raises(ValueError, match="instance of `Measurement`"):
        compare.extend_results([3])


def test_table_marks_what_spreads():
    compare = benchmark.Compare([measurement([1.0, 2.0] * 4, label="add")])
    compare.highlight_warnings()
    compare.trim_significant_figures()
    assert "(! " in str(compare)


PROFILE = """\
events: Ir
ob=(1) /lib/a.so
fl=(1) one.c
fn=(1) outer
3 5
cfl=(2) two.c
cfn=(2) inner
calls=2 10
+1 14
+2 1
fl=(2)
fn=(2)
10 14
fl=(1)
fn=(1)
7 4
"""


def test_callgrind_files():
    inclusive, exclusive = callgrind.parse(PROFILE)
    assert dict((f, c) for c, f in exclusive) == {"one.c:outer": 10, "two.c:inner": 14}
    assert dict((f, c) for c, f in inclusive) == {"one.c:outer": 24, "two.c:inner": 14}
    assert exclusive.sum() == 24 and len(exclusive) == 2
    doubled = exclusive + exclusive
    assert doubled.sum() == 48 and (doubled - exclusive).sum() == 24
    assert not len(exclusive - exclusive)
    only = exclusive.filter(lambda name: "inner" in name)
    assert only.transform(str.upper)[0].function == "TWO.C:INNER"
    noisy = exclusive.transform(lambda name: "Objects/dictobject.c:lookdict_unicode")
    assert noisy.denoise().sum() == 0
    with pytest.raises(ValueError, match="one kind"):
        _ = inclusive + exclusive


def test_instruction_counts_or_what_is_missing():
    timer = benchmark.Timer("y = a * a", globals={"a": 3})
    if shutil.which("valgrind") is None:
        with pytest.raises(OSError, match="Could not find valgrind"):
            timer.collect_callgrind()
        return
    few, many = (timer.collect_callgrind(number=n) for n in (20, 120))
    per_run = (many.counts() - few.counts()) / 100
    assert 20 < per_run < 2000
    assert many.stats().sum() == many.counts()
    assert "Instructions:" in repr(many.as_standardized())


def test_callgrind_wants_values_that_travel(monkeypatch):
    timer = benchmark.Timer("f()", globals={"f": lambda: 1})
    monkeypatch.setattr(callgrind.shutil, "which", lambda name: "/usr/bin/valgrind")
    with pytest.raises(ValueError, match="f of type function"):
        timer.collect_callgrind()
    wrapped = benchmark.CopyIfCallgrind([1, 2], setup="import math")
    stored, setup = callgrind._stored({"a": wrapped, "t": facula.ones(2), "m": shutil})
    assert stored["a"] == ("value", [1, 2]) and setup == "import math"
    assert stored["t"][0] == "tensor" and stored["m"] == ("module", "shutil")
    assert benchmark.CopyIfCallgrind.unwrap_all({"a": wrapped}) == {"a": [1, 2]}


def test_no_valgrind(monkeypatch):
    monkeypatch.setattr(callgrind.shutil, "which", lambda name: None)
    with pytest.raises(OSError, match="Valgrind was required"):
        benchmark.Timer("pass").collect_callgrind()


def fuzzer(seed):
    return benchmark.Fuzzer(
        [
            benchmark.FuzzedParameter("n", 4, 64, "loguniform"),
            benchmark.FuzzedParameter(
                "m", distribution={2: 0.5, benchmark.ParameterAlias("n"): 0.5}
            ),
            benchmark.FuzzedParameter("step", 1, 2, "uniform"),
        ],
        [
            benchmark.FuzzedTensor(
                "x", ("n", "m"), steps=("step", 1), probability_contiguous=0.3, max_elements=512
            )
        ],
        constraints=[lambda n, m, step: n != 5],
        seed=seed,
    )


def test_random_inputs():
    drawn = list(fuzzer(3).take(20))
    for tensors, properties, params in drawn:
        assert tuple(tensors["x"].shape) == (params["n"], params["m"])
        assert params["n"] * params["m"] <= 512 and params["n"] != 5
        assert properties["x"]["is_contiguous"] == tensors["x"].is_contiguous()
        assert params["m"] in (2, params["n"])
    assert len({p["is_contiguous"] for _, all_, _ in drawn for p in all_.values()}) == 2
    again = list(fuzzer(3).take(20))
    assert [p for _, _, p in again] == [p for _, _, p in drawn]
    assert all(
        facula.equal(a["x"], b["x"]) for (a, _, _), (b, _, _) in zip(drawn, again, strict=True)
    )


def test_impossible_inputs():
    with pytest.raises(ValueError, match="constraints that one of"):
        next(
            benchmark.Fuzzer(
                [benchmark.FuzzedParameter("n", 4, 8, "uniform")],
                [benchmark.FuzzedTensor("x", ("n",), min_elements=100)],
            ).take(1)
        )
    with pytest.raises(ValueError, match="add up to 1"):
        benchmark.FuzzedParameter("n", distribution={1: 0.2})
    with pytest.raises(ValueError, match="names that differ"):
        benchmark.Fuzzer([benchmark.FuzzedParameter("n", 1, 2, "uniform")] * 2, [])
