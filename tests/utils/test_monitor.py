"""Counters and events: what `facula.monitor` promises, against sums made by hand."""

from datetime import datetime, timedelta

import pytest

from facula import monitor
from facula.monitor import Aggregation, Event, Stat


@pytest.fixture
def events():
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_a_window_that_is_full_is_logged_with_every_summary(events) -> None:
    kinds = [
        Aggregation.VALUE,
        Aggregation.MEAN,
        Aggregation.COUNT,
        Aggregation.SUM,
        Aggregation.MAX,
        Aggregation.MIN,
    ]
    stat = Stat("loss", kinds, timedelta(hours=1), 4)
    for value in (2.0, -1.0, 5.0):
        stat.add(value)
    assert stat.count == 3 and not events and set(stat.get().values()) == {0.0}
    stat.add(3)
    assert stat.count == 0
    assert [event.name for event in events] == ["torch.monitor.Stat"]
    assert events[0].data == {
        "loss.value": 3.0,
        "loss.mean": 2.25,
        "loss.count": 4.0,
        "loss.sum": 9.0,
        "loss.max": 5.0,
        "loss.min": -1.0,
    }
    assert stat.get()[Aggregation.SUM] == 9.0
    stat.add(100.0)  # beyond the limit of this window
    assert stat.count == 0 and len(events) == 1


def test_what_is_left_is_logged_when_a_stat_goes(events) -> None:
    stat = Stat("left", (Aggregation.SUM,), timedelta(hours=1))
    stat.add(1.5)
    del stat
    assert events[-1].data == {"left.sum": 1.5}


def test_a_window_that_ended_is_logged_by_the_next_number(events, monkeypatch) -> None:
    now = [0]
    monkeypatch.setattr(Stat, "_now", lambda self: now[0])
    stat = Stat("step", (Aggregation.COUNT, Aggregation.SUM), timedelta(seconds=1))
    stat.add(1.0)
    stat.add(2.0)
    now[0] = 1
    stat.add(7.0)
    assert events[-1].data == {"step.count": 2.0, "step.sum": 3.0} and stat.count == 1


def test_handlers_hear_in_order_until_they_are_taken_away() -> None:
    heard = []
    one = monitor.register_event_handler(lambda event: heard.append((1, event.name)))
    two = monitor.register_event_handler(lambda event: heard.append((2, event.name)))
    monitor.log_event(Event("a", datetime(2024, 1, 1), {}))
    monitor.unregister_event_handler(one)
    monitor.unregister_event_handler(one)
    monitor.log_event(Event("b", datetime(2024, 1, 1), {}))
    monitor.unregister_event_handler(two)
    assert heard == [(1, "a"), (2, "a"), (2, "b")]


def test_numbers_of_stats_are_written_for_tensorboard() -> None:
    written = []

    class Writer:
        def add_scalar(self, *args, **kwargs):
            written.append((args, kwargs))

    handler = monitor.TensorboardEventHandler(Writer())
    time = datetime(2024, 5, 6, 7, 8)
    handler(Event("other", time, {"x": 1}))
    handler(Event("torch.monitor.Stat", time, {"x.sum": 2.0}))
    assert written == [(("x.sum", 2.0), {"walltime": time.timestamp()})]


def test_waits_are_counted() -> None:
    counter = monitor._WaitCounter("wait")
    with counter.guard():
        pass
    assert counter.waits == 1 and counter.seconds >= 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Stat("x", ("sum",), timedelta(hours=1)), "kinds of Aggregation"),
        (lambda: Stat("x", (), timedelta(0)), "a window of a millisecond"),
        (lambda: Stat("x", (), timedelta(1), 0), "at least one sample"),
        (lambda: monitor.register_event_handler(3), "a function that takes an event"),
    ],
)
def test_what_is_wrong_is_said(make, said) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        make()
