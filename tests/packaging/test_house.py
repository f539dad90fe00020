"""Settings, error messages, and the pages of the documentation that run."""

import doctest
from pathlib import Path

import pytest

from facula.core import config, errors

DOCS = Path(__file__).resolve().parents[2] / "docs"


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


def test_every_setting_is_documented():
    text = (DOCS / "settings.md").read_text()
    assert all(f"`{setting.variable}`" in text for setting in config.SETTINGS.values())
    assert len(config.describe().splitlines()) == len(config.SETTINGS)


def test_error_form():
    with pytest.raises(IndexError) as caught:
        errors.fail(IndexError, "select", "index must be in [0, 3)", got=3, hint="count from 0")
    assert str(caught.value) == "[select] index must be in [0, 3): got 3\nhint: count from 0"


def test_errors_doctest():
    assert doctest.testmod(errors).failed == 0


@pytest.mark.parametrize(("page", "examples"), [("from_scratch.md", 25), ("adding_a_device.md", 8)])
def test_pages_run(page, examples):
    result = doctest.testfile(str(DOCS / page), module_relative=False)
    assert result.failed == 0 and result.attempted >= examples
