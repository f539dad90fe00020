"""A truth value where a number belongs, or a number where a truth value does, is an error, as in PyTorch."""

import pytest

import facula
import facula.nn.functional as F

X = facula.arange(24.0).reshape(2, 3, 4)

TRUTH_FOR_NUMBER = {
    "sum": lambda: X.sum(True),
    "sum of a list": lambda: X.sum((True,)),
    "mean": lambda: X.mean(True),
    "topk": lambda: X.topk(4, True),
    "max": lambda: X.max(True),
    "size": lambda: X.size(True),
    "select": lambda: X.select(True, 0),
    "transpose": lambda: X.transpose(True, 0),
    "permute": lambda: X.permute(True, 0, 2),
    "unsqueeze": lambda: X.unsqueeze(True),
    "squeeze": lambda: X.squeeze(True),
    "view": lambda: X.view(True, 24),
    "cat": lambda: facula.cat([X], True),
    "zeros": lambda: facula.zeros(True),
    "eye": lambda: facula.eye(True),
    "softmax": lambda: X.softmax(True),
    "conv2d": lambda: F.conv2d(X, facula.ones(1, 2, 1, 1), None, True),
}
NUMBER_FOR_TRUTH = {
    "sum": lambda: X.sum(0, 1),
    "max": lambda: X.max(0, 1),
    "sort": lambda: X.sort(0, 1),
    "dropout": lambda: F.dropout(X, 0.5, 1),
    "norm": lambda: X.norm(2, 0, 1),
}


@pytest.mark.parametrize("call", TRUTH_FOR_NUMBER.values(), ids=TRUTH_FOR_NUMBER)
def test_truth_values_are_no_numbers(call):
    with pytest.raises(TypeError, match=r"must be (int|tuple of ints), not bool"):
        call()


@pytest.mark.parametrize("call", NUMBER_FOR_TRUTH.values(), ids=NUMBER_FOR_TRUTH)
def test_numbers_are_no_truth_values(call):
    with pytest.raises(TypeError, match="must be bool, not int"):
        call()


def test_numbers_that_truth_values_may_stand_for():
    assert X.sum(0, True).shape == (1, 3, 4) and X.std(True).item() > 7
    assert X.clamp(True, 5).min() == 1 and facula.full((2,), True).dtype == facula.bool
    assert X.pow(True).equal(X) and X.norm(True) == X.sum()
