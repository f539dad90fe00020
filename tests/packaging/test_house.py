"""Settings, and the form of error messages."""

import doctest
from pathlib import Path

import pytest

from facula.core import config, errors


@pytest.fixture(autouse=True)
def forget():
    yield
    config.reset()


def test_environment_then_process(monkeypatch):
    monkeypatch.delenv("FACULA_NUM_THREADS", raising=False)
    assert config.get("num_threads") is None
    monkeypatch.setenv("FACULA_NUM_THREADS", "3")
    assert config.get("num_threads") == 3
    config.set("num_threads", 5)
    assert config.get("num_threads") == 5
    config.reset("num_threads")
    assert config.get("num_threads") == 3


@pytest.mark.parametrize("value", ["-1", "many"])
def test_ill_formed_value_names_the_variable(monkeypatch, value):
    monkeypatch.setenv("FACULA_NUM_THREADS", value)
    with pytest.raises(ValueError, match="FACULA_NUM_THREADS must be"):
        config.get("num_threads")


def test_unknown_setting():
    with pytest.raises(KeyError, match="num_threads"):
        config.get("threads")


def test_error_form():
    with pytest.raises(IndexError) as caught:
        errors.fail(IndexError, "select", "index must be in [0, 3)", got=3, hint="count from 0")
    assert str(caught.value) == "[select] index must be in [0, 3): got 3\nhint: count from 0"


def test_errors_doctest():
    assert doctest.testmod(errors).failed == 0


def test_names_of_test_files_differ():
    # pytest imports test files by their own name, without the folder's
    names = [path.name for path in Path(__file__).parents[1].rglob("*.py")]
    assert sorted(n for n in set(names) if names.count(n) > 1) == []
