"""Settings and error messages."""

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
    assert config.get("strict") is False
    monkeypatch.setenv("FACULA_STRICT", "1")
    assert config.get("strict") is True
    config.set("strict", False)
    assert config.get("strict") is False
    config.reset("strict")
    assert config.get("strict") is True


@pytest.mark.parametrize(
    ("variable", "name", "value"),
    [("FACULA_STRICT", "strict", "perhaps"), ("FACULA_NUM_THREADS", "num_threads", "-1")],
)
def test_ill_formed_value_names_the_variable(monkeypatch, variable, name, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=variable):
        config.get(name)


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


def test_from_scratch_page_runs():
    result = doctest.testfile(str(DOCS / "from_scratch.md"), module_relative=False)
    assert result.failed == 0 and result.attempted > 25
