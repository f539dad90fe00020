"""Each error that a definition names is raised with its type, message and hint, and changes nothing."""

import pytest
from operator_cases import (
    DEFINITIONS,
    SAMPLED,
    TABLE,
    Samples,
    assert_same,
    calls,
    map_tensors,
)

import facula

WITH_ERRORS = [name for name, d in DEFINITIONS.items() if d.errors is not None]


@pytest.mark.parametrize("name", WITH_ERRORS)
def test_errors_of_the_definition(name):
    for args, kwargs, kind, message in DEFINITIONS[name].errors(Samples()):
        kept = map_tensors(lambda x: x.clone(), (args, kwargs))
        with pytest.raises(kind) as caught:
            TABLE[name](*args, **kwargs)
        text = str(caught.value)
        assert text.startswith("[") and "] " in text.splitlines()[0]
        assert text.splitlines()[-1].startswith("hint: ")
        assert message in text
        assert_same((args, kwargs), kept)


@pytest.mark.parametrize("name", SAMPLED)
def test_wrong_types_are_named(name):
    """A text where a tensor belongs is a TypeError that names the operator and the argument."""
    definition = DEFINITIONS[name]
    args, kwargs = calls(name, Samples())[0]
    for position, parameter in enumerate(definition.schema.parameters[: len(args)]):
        if parameter.type != "Tensor" or parameter.is_list:
            continue
        wrong = [*args]
        wrong[position] = "text"
        with pytest.raises(TypeError) as caught:
            TABLE[name](*wrong, **kwargs)
        assert parameter.name in str(caught.value) and str(caught.value).startswith("[")


@pytest.mark.parametrize("name", list(TABLE))
def test_unknown_keywords_are_refused(name):
    positional = any(not p.keyword_only for p in TABLE[name].definition.schema.parameters)
    args = (facula.ones(2),) if positional else ()
    with pytest.raises(TypeError, match="no_such_argument"):
        TABLE[name](*args, no_such_argument=1)
