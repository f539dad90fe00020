"""Hooks of modules run in scripts as they do in Python, also those of modules inside, and in files."""

import io
from typing import Tuple  # noqa: UP035

import pytest

import facula
from facula import jit


class Inner(facula.nn.Module):
    def forward(self, x):
        return x * 2


class Outer(facula.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.list = facula.nn.Sequential(Inner(), Inner())

    def forward(self, x, n: int):
        return self.list(self.inner(x)) + n + self.inner.forward(x)


def widened(self, input: Tuple[facula.Tensor, int]) -> Tuple[facula.Tensor, int]:  # noqa: UP006
    return input[0] + 1, input[1] * 10


def tripled(self, input: Tuple[facula.Tensor], output: facula.Tensor) -> facula.Tensor:  # noqa: UP006
    return output * 3 + input[0]


def shifted(self, input: Tuple[facula.Tensor]) -> facula.Tensor:  # noqa: UP006
    return input[0] + 5


def looked(self, input: Tuple[facula.Tensor]) -> None:  # noqa: UP006
    input[0].mul_(1)


def hooked():
    module = Outer()
    module.register_forward_pre_hook(widened)
    module.inner.register_forward_pre_hook(looked)
    module.inner.register_forward_pre_hook(shifted)
    module.inner.register_forward_hook(tripled)
    module.list[1].register_forward_hook(tripled)
    return module


def test_hooks_run_in_scripts_and_in_files():
    module = hooked()
    scripted = jit.script(module)
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    for x in (facula.ones(2), facula.tensor([-1.5, 2.0])):
        # by hand: the outer hook, then the inner module's, whose direct forward runs none
        y, n = x + 1, 3 * 10
        shifted_y = y + 5
        first = shifted_y * 2 * 3 + shifted_y
        second = first * 2
        expected = second * 2 * 3 + second + n + y * 2
        assert facula.equal(module(x, 3), expected)
        assert facula.equal(scripted(x, 3), expected)
        assert facula.equal(jit.load(io.BytesIO(file.getvalue()))(x, 3), expected)


def test_modules_of_one_class_keep_their_own_hooks():
    plain = jit.script(Outer())
    x = facula.ones(2)
    assert facula.equal(plain(x, 1), x * 8 + 1 + x * 2)
    assert not facula.equal(jit.script(hooked())(x, 1), plain(x, 1))


def test_hooks_that_cannot_be_compiled_are_errors():
    class Called:
        def __call__(self, module, input):
            return input

    module = Outer()
    module.inner.register_forward_pre_hook(Called())
    with pytest.raises(RuntimeError, match="a function as hook"):
        jit.script(module)

    def forward(self, input: Tuple[facula.Tensor]) -> None:  # noqa: UP006
        return None

    module = Outer()
    module.inner.register_forward_pre_hook(forward)
    with pytest.raises(RuntimeError, match="a method or hook with that name already exists"):
        jit.script(module)


def test_a_hooked_module_is_not_frozen_without_its_hooks():
    with pytest.raises(RuntimeError, match="a module without hooks"):
        jit.freeze(jit.script(hooked().eval()))


def _one(self, input: Tuple[facula.Tensor, facula.Tensor], output: facula.Tensor):  # noqa: UP006
    return output


def _other(self, input: Tuple[int], output: facula.Tensor):  # noqa: UP006
    return output


def _plain(self, input: facula.Tensor, output: facula.Tensor):
    return output


def _result(self, input: Tuple[facula.Tensor], output: int):  # noqa: UP006
    return output


def _more(self, input: Tuple[facula.Tensor], output: facula.Tensor, last: int):  # noqa: UP006
    return output


@pytest.mark.parametrize(
    ("hook", "text"),
    [
        (_one, "wrong number of contained types for the input argument's Tuple"),
        (_other, r"wrong inner types for the input tuple argument. Received type: 'Tuple\[int\]'"),
        (_plain, "to be typed as a Tuple but found type: 'Tensor' instead"),
        (
            _result,
            "wrong type for the output argument. Received type: 'int'. Expected type: 'Tensor'",
        ),
        (_more, "exactly 3 inputs but it had 4 inputs"),
    ],
)
def test_hooks_that_do_not_fit_forward_are_refused(hook, text):
    """They were scripted, and failed in the middle of a call, or not at all."""
    module = facula.nn.ReLU()
    module.register_forward_hook(hook)
    with pytest.raises(RuntimeError, match=text):
        jit.script(module)


def _nothing_said(self, input: Tuple[facula.Tensor]):  # noqa: UP006
    return None


def _number(self, input: Tuple[facula.Tensor]) -> int:  # noqa: UP006
    return 1


@pytest.mark.parametrize(
    ("hook", "text"),
    [
        (_nothing_said, "missing a return annotation"),
        (_number, "returned the wrong type of: 'int'"),
    ],
)
def test_pre_hooks_give_what_forward_takes(hook, text):
    module = facula.nn.ReLU()
    module.register_forward_pre_hook(hook)
    with pytest.raises(RuntimeError, match=text):
        jit.script(module)
