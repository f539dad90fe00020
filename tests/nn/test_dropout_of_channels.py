"""Dropout of whole channels: which dimensions count as channels, and for how many PyTorch only warns."""

import warnings

import pytest

import facula

F = facula.nn.functional


def kept(x, leading):
    """Whether each slice behind the first `leading` dimensions is all zero or all kept."""
    rows = x.flatten(leading - 1) if x.dim() == leading else x.flatten(leading)
    rows = rows.unsqueeze(-1) if x.dim() == leading else rows
    return all(len(set(row)) == 1 for row in rows.reshape(-1, rows.shape[-1]).tolist())


@pytest.mark.parametrize("dims", range(1, 7))
def test_inputs_of_dropout3d(dims):
    """Only [C, D, H, W] and [N, C, D, H, W] are meant; others are read as without a batch, and warned of."""
    x = facula.ones([4] * dims)
    layer = facula.nn.Dropout3d(0.5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        facula.manual_seed(3)
        result = layer(x)
        layer(x)
    expected = [] if dims in (4, 5) else [f"Received a {dims}-D input"] * 2
    assert len(said) == len(expected)
    assert all(text in str(w.message) for text, w in zip(expected, said, strict=True))
    assert set(result.flatten().tolist()) <= {0.0, 2.0}
    assert kept(result, 2 if dims == 5 else 1)


@pytest.mark.parametrize("dims", range(2, 7))
def test_inputs_of_dropout2d(dims):
    x = facula.ones([4] * dims)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        facula.manual_seed(3)
        result = F.dropout2d(x, 0.5, True)
    text = {3: "3D input", 4: None}.get(dims, f"Received a {dims}-D input")
    assert [text in str(w.message) for w in said] == ([True] if text else [])
    assert kept(result, 2)


@pytest.mark.parametrize("dims", [1, 4, 5])
def test_inputs_that_dropout1d_refuses(dims):
    with pytest.raises(RuntimeError, match="Expected 2D or 3D input"):
        F.dropout1d(facula.ones([2] * dims))


def test_celu_has_no_slope_of_zero():
    for call in (
        lambda: facula.nn.CELU(0.0)(facula.ones(2)),
        lambda: F.celu(facula.ones(2), 0),
        lambda: F.celu(facula.ones(2), 0.0, inplace=True),
        lambda: facula.celu(facula.ones(2), alpha=0.0),
        lambda: facula.celu_(facula.ones(2), 0.0),
    ):
        with pytest.raises(RuntimeError, match="alpha cannot be 0 for CELU"):
            call()
