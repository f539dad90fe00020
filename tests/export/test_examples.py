"""The examples of export, and the checks of exported programs."""

import copy

import pytest

import facula
from facula import export, nn
from facula._export.db.case import SupportLevel
from facula._export.db.examples import all_examples
from facula.export.verifier import SpecViolationError, Verifier, load_verifier
from facula.utils import _pytree as pytree


@pytest.mark.parametrize("name", all_examples())
def test_examples_are_what_they_say(name):
    case = all_examples()[name]
    model = copy.deepcopy(case.model)
    if case.support_level is not SupportLevel.SUPPORTED:
        with pytest.raises(Exception, match="data-dependent"):
            export.export(model, case.example_args)
        return
    named = case.example_kwargs
    program = export.export(model, case.example_args, named, dynamic_shapes=case.dynamic_shapes)
    program.verifier().check(program)
    Verifier().check(program.run_decompositions())
    for args in (case.example_args, case.extra_args):
        if args is not None:
            found = pytree.tree_leaves(copy.deepcopy(program.module())(*args, **named))
            wanted = pytree.tree_leaves(copy.deepcopy(case.model)(*args, **named))
            assert len(found) == len(wanted)
            for x, y in zip(found, wanted, strict=True):
                assert facula.equal(x, y) if isinstance(x, facula.Tensor) else x == y


def test_programs_that_were_changed_are_refused():
    def program():
        return export.export(nn.Linear(2, 1), (facula.ones(1, 2),))

    made = program()
    next(n for n in made.graph.nodes if n.op == "call_function").target = print
    with pytest.raises(SpecViolationError, match="operator"):
        Verifier().check(made)
    made = program()
    made.graph_signature.input_specs.pop()
    with pytest.raises(SpecViolationError, match="inputs"):
        Verifier().check(made)
    made = program()
    del made.state_dict["weight"]
    with pytest.raises(SpecViolationError, match="weight"):
        Verifier().check(made)

    class Mine(Verifier):
        dialect = "TESTS_OF_EXAMPLES"

        def check_valid_op(self, op):
            raise SpecViolationError("none of mine")

    assert load_verifier("TESTS_OF_EXAMPLES") is Mine
    with pytest.raises(SpecViolationError, match="none of mine"):
        Mine().check(program())
