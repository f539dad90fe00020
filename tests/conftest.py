"""What holds for all tests: graph breaks, fallbacks and hidden faults fail a test that is not about them.

`@pytest.mark.breaks("code", ...)` names the codes of the events that a test may cause; without codes,
all but the compiler's own faults. `--sample FRACTION` and `--seed TEXT` run a part of the tests: the
same seed draws the same ones, in whatever order they are collected; where a draw leaves none, one is
kept, so that a run never passes with nothing tried.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pytest

import facula
from facula.capture import config as settings
from facula.capture import events

#: kinds of events that mean that something ran in eager which was to be compiled
FALLBACKS = {
    "graph break", "no compiler", "not captured", "recompile limit", "suppressed error",
    "symbolic sizes failed",
}  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    meaning = (
        "breaks(code, ...): may break graphs and fall back to eager, for reasons of these codes"
    )
    config.addinivalue_line("markers", meaning)


def _allowed(item: Any) -> set[str] | None:
    """The codes that a test may cause; None for all."""
    found: set[str] = set()
    for mark in item.iter_markers("breaks"):
        if not mark.args:
            return None
        found.update(mark.args)
    return found


@pytest.fixture(autouse=True)
def numbers_of_the_test(request: pytest.FixtureRequest) -> None:
    """A test that seeds nothing draws the same numbers in every run and in any order of tests."""
    facula.manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(autouse=True)
def no_silent_fallbacks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test at whose end something fell back to eager that its marks do not name."""
    allowed, seen = _allowed(request.node), []

    def listen(event: events.Event) -> None:
        named = event.code in allowed if allowed is not None else event.code != "internal"
        if event.kind in FALLBACKS and not named:
            seen.append(event)

    events.LISTENERS.append(listen)
    yield
    events.LISTENERS.remove(listen)
    assert not settings.suppress_errors, "a test left suppress_errors switched on"
    if seen:
        shown = "\n".join(events.text_of(event) for event in dict.fromkeys(seen))
        pytest.fail(f"the test is not marked with breaks, and there were:\n{shown}", pytrace=False)


# ------------------------------------------------------------------ a part of the tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", type=float, default=1.0, help="the part of the tests to run")
    parser.addoption("--seed", default="", help="what chooses the part")


@pytest.hookimpl(trylast=True)  # after marks and names have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    fraction, seed = config.getoption("--sample"), config.getoption("--seed")
    if fraction >= 1 or not items:
        return
    place = {item: zlib.crc32(f"{seed}:{item.nodeid}".encode()) / 2**32 for item in items}
    kept = [item for item in items if place[item] < fraction] or [min(items, key=place.__getitem__)]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept
