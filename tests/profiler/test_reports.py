"""Schedules, tables and files of profiles."""

import gzip
import json

import pytest

import facula
from facula.autograd.profiler_formats import format_memory, format_time
from facula.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


@pytest.fixture
def finished():
    x = facula.randn(8, 8, requires_grad=True)
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as p:
        with record_function("forward"):
            y = facula.mm(x, x)
        y.sum().backward()
    return p


def test_schedule_gives_the_action_of_each_step():
    action = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    letters = {
        ProfilerAction.NONE: "-",
        ProfilerAction.WARMUP: "w",
        ProfilerAction.RECORD: "r",
        ProfilerAction.RECORD_AND_SAVE: "S",
    }
    assert "".join(letters[action(step)] for step in range(12)) == "--wrS-wrS---"
    assert schedule(wait=2, warmup=1, active=1, skip_first_wait=1)(0) is ProfilerAction.WARMUP
    with pytest.raises(ValueError, match="active"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_steps_follow_the_schedule_and_each_cycle_is_handed_over():
    seen = []
    settings = {"wait": 1, "warmup": 1, "active": 2, "repeat": 2}
    with profile(
        schedule=schedule(**settings), on_trace_ready=lambda p: seen.append(list(p.events()))
    ) as p:
        for _ in range(9):
            facula.ones(2) + 1
            p.step()
    assert len(seen) == 2 and p.step_num == 9
    for cycle, first in zip(seen, (2, 6), strict=True):
        found = [event.name for event in cycle]
        assert [n for n in found if n.startswith("ProfilerStep")] == [
            f"ProfilerStep#{first}",
            f"ProfilerStep#{first + 1}",
        ]
        assert found.count("aten::add") == 2


def test_without_a_schedule_the_handler_gets_the_block():
    seen = []
    with profile(on_trace_ready=seen.append) as p:
        facula.empty(1)
    assert seen == [p] and len(p.events()) == 1


def test_a_schedule_that_drops_what_it_recorded_is_reported():
    actions = [ProfilerAction.RECORD, ProfilerAction.NONE]
    with (
        pytest.warns(UserWarning, match="Incorrect schedule"),
        profile(schedule=lambda step: actions[min(step, 1)]) as p,
    ):
        p.step()


def test_activities():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="No valid"):
        profile(activities=[ProfilerActivity.CUDA])


def test_table(finished):
    text = finished.key_averages().table(sort_by="cpu_time_total", row_limit=3)
    lines = text.splitlines()
    for heading in ("Name", "Self CPU %", "CPU total", "CPU Mem", "# of Calls", "Total KFLOPs"):
        assert heading in lines[1]
    assert len(lines) == 8 and lines[-1].startswith("Self CPU time total: ")
    assert "Input Shapes" not in text
    shaped = finished.key_averages(group_by_input_shape=True).table()
    assert "Input Shapes" in shaped and "[[8, 8], [8, 8]]" in shaped
    stacked = finished.key_averages(group_by_stack_n=2).table(header="title")
    assert "Source Location" in stacked and "title" in stacked
    with pytest.raises(AttributeError):
        finished.key_averages().table(sort_by="beauty")
    events = finished.key_averages()
    longest = max(event.cpu_time_total for event in events)
    ordered = events.table(sort_by="cpu_time_total", time_unit="us")
    assert f"{longest:.3f}us" in ordered.splitlines()[3]


def test_sums(finished):
    sums = {event.key: event for event in finished.key_averages()}
    assert sums["aten::mm"].count >= 1 and sums["aten::mm"].flops >= 1024
    total = finished.key_averages().total_average()
    assert total.key == "Total" and total.count == len(finished.events())
    assert total.self_cpu_time_total == pytest.approx(finished.key_averages().self_cpu_time_total)
    assert sums["aten::mm"].cuda_time_total == 0 and sums["aten::mm"].cpu_time_str


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_chrome_trace(finished, tmp_path, name):
    path = tmp_path / name
    finished.add_metadata("who", "me")
    finished.add_metadata_json("sizes", "[1, 2]")
    finished.export_chrome_trace(str(path))
    opened = gzip.open(path, "rt") if name.endswith("gz") else open(path)
    with opened as file:
        content = json.load(file)
    assert content["who"] == "me" and content["sizes"] == [1, 2]
    events = content["traceEvents"]
    product = next(e for e in events if e["name"] == "aten::mm")
    assert product["ph"] == "X" and product["cat"] == "cpu_op" and product["dur"] > 0
    assert product["args"]["Input Dims"] == [[8, 8], [8, 8]]
    assert next(e for e in events if e["name"] == "forward")["cat"] == "user_annotation"
    starts = {e["id"] for e in events if e["ph"] == "s"}
    assert starts and starts == {e["id"] for e in events if e["ph"] == "f"}


def test_stacks(finished, tmp_path):
    path = tmp_path / "stacks"
    finished.export_stacks(str(path), "self_cpu_time_total")
    for line in path.read_text().splitlines():
        frames, _, value = line.rpartition(" ")
        assert int(value) > 0 and " " not in frames
    with pytest.raises(ValueError, match="metric"):
        finished.export_stacks(str(path), "beauty")


def test_tensorboard_handler(finished, tmp_path):
    tensorboard_trace_handler(str(tmp_path / "runs"), "worker")(finished)
    tensorboard_trace_handler(str(tmp_path / "runs"), "worker", use_gzip=True)(finished)
    found = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(found) == 2 and all(name.startswith("worker.") for name in found)
    assert found[0].endswith(".pt.trace.json") or found[1].endswith(".pt.trace.json")


def test_units():
    assert format_time(1.5) == "1.500us" and format_time(2e3) == "2.000ms"
    assert format_memory(-2048) == "-2.00 KB" and format_memory(3) == "3 B"


def test_tools_that_are_not_installed_are_named():
    with pytest.raises(RuntimeError, match="hint"), facula.autograd.profiler.emit_itt():
        pass
