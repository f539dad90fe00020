"""Tensors of up to 64 dimensions, judged by NumPy, which has as many."""

import copy
import io
import pickle

import numpy as np
import pytest

import facula
from facula.func import vmap
from facula.utils import swap_tensors

RANK = 18


@pytest.fixture(scope="module")
def array() -> np.ndarray:
    return np.sin(np.arange(2.0**RANK)).reshape((2,) * RANK)


@pytest.fixture
def tensor(array: np.ndarray) -> facula.Tensor:
    return facula.from_numpy(array.copy())


def same(tensor: facula.Tensor, array: np.ndarray) -> bool:
    return np.array_equal(tensor.numpy(), array)


def test_views_are_numpys(tensor, array) -> None:
    assert tensor.dim() == RANK and tensor.stride() == tuple(s // 8 for s in array.strides)
    assert same(tensor.transpose(0, 17), array.swapaxes(0, 17))
    assert same(tensor.transpose(0, 17).contiguous(), array.swapaxes(0, 17))
    assert same(tensor.permute(*range(RANK)[::-1]), array.T)
    assert same(tensor.movedim(2, 16), np.moveaxis(array, 2, 16))
    assert same(tensor.unsqueeze(5).squeeze(5), array)
    assert same(tensor[1, None, :, ..., 0, None], array[1, None, :, ..., 0, None])
    assert same(tensor.unflatten(3, (1, 2)), array.reshape((2, 2, 2, 1) + (2,) * 15))
    assert same(tensor.unbind(17)[1], array[..., 1])


def test_operators_are_numpys(tensor, array) -> None:
    turned = array.swapaxes(1, 15)
    assert same(tensor + tensor.transpose(1, 15), array + turned)
    larger = facula.where(tensor > 0, tensor, tensor.transpose(1, 15))
    assert same(larger, np.where(array > 0, array, turned))
    assert np.allclose(tensor.sum((0, 4, 17)).numpy(), array.sum((0, 4, 17)))
    assert same(tensor.flip(3), np.flip(array, 3)) and same(tensor.roll(1, 5), np.roll(array, 1, 5))
    assert np.allclose(tensor.cumsum(9).numpy(), array.cumsum(9))
    assert same(tensor.sort(2)[0], np.sort(array, 2)) and same(tensor.argmax(4), array.argmax(4))
    assert same(facula.cat([tensor, tensor], 16), np.concatenate([array, array], 16))
    gate = facula.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=facula.float64)
    turned = np.tensordot(gate.numpy(), array, ([1], [17]))
    assert np.allclose(facula.tensordot(gate, tensor, dims=([1], [17])).numpy(), turned)


def test_indices_read_and_write_as_numpys(tensor, array) -> None:
    array = array.copy()
    assert same(tensor[:, [1, 0]], array[:, [1, 0]]) and same(tensor[tensor > 0], array[array > 0])
    tensor[0, :, 1] = 5
    array[0, :, 1] = 5
    tensor.transpose(0, 17).add_(facula.tensor([1.0, 2.0]))
    array.swapaxes(0, 17)[...] += [1.0, 2.0]
    assert same(tensor, array)


def test_gradients_of_many_dimensions(array) -> None:
    x = facula.from_numpy(array.copy()).requires_grad_()
    (x.exp() * x.transpose(1, 16)).sum().backward()
    turned = array.swapaxes(1, 16)
    assert np.allclose(x.grad.numpy(), np.exp(array) * turned + np.exp(turned))


def test_calls_again_give_the_same(tensor, array) -> None:
    small = facula.from_numpy(array[(0,) * 12 + (None,) * 12].copy())
    expected = small.numpy() * 2 + small.numpy().swapaxes(13, 17)
    for _ in range(4):
        assert same(facula.lerp(small * 2, small * 2, 0.5) + small.transpose(13, 17), expected)


def test_ways_out_and_back(tensor, array) -> None:
    file = io.BytesIO()
    facula.save(tensor, file)
    file.seek(0)
    for other in (
        facula.load(file), pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor),
        facula.from_dlpack(tensor), facula.tensor(array[(0,) * 14].tolist()).expand((2,) * RANK),
    ):  # fmt: skip
        assert other.dim() == RANK
    assert same(facula.from_dlpack(tensor), array)


def test_swapped_tensors_keep_their_geometry(array) -> None:
    many, few = facula.from_numpy(array.copy()), facula.arange(3.0)
    swap_tensors(many, few)
    assert same(few, array) and many.tolist() == [0.0, 1.0, 2.0]
    assert same(few.transpose(0, 17), array.swapaxes(0, 17))
    swap_tensors(many, few)
    assert same(many, array) and few.shape == (3,)


def test_maps_and_compiled_functions(tensor, array) -> None:
    assert same(vmap(lambda x: x.transpose(0, 1) + 1)(tensor), array.swapaxes(1, 2) + 1)

    def function(x: facula.Tensor) -> facula.Tensor:
        return (x.transpose(0, 5) * 2 + x).sum(3)

    turned = (array.swapaxes(0, 5) * 2 + array).sum(3)
    assert np.allclose(facula.compile(function)(tensor).numpy(), turned)


def test_sixty_four_is_the_most() -> None:
    most = facula.ones((1,) * 64)
    assert most.dim() == 64 and (most + most).sum().item() == 2 and most.squeeze().dim() == 0
    assert most.squeeze(63).dim() == most[0].dim() == 63 and most[None, 0].dim() == 64
    for call in (
        lambda: facula.ones((1,) * 65), lambda: most.unsqueeze(0), lambda: most[None],
        lambda: most[..., None, :, None], lambda: facula.stack([most, most]),
        lambda: most.expand(2, *most.shape), lambda: most.view((1,) * 70),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="at most 64 dimensions"):
            call()


def test_resizing_to_many_and_back() -> None:
    x = facula.arange(6)
    x.resize_((1,) * 40 + (6,))
    assert x.shape == (1,) * 40 + (6,) and x.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    x.resize_(2, 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("rank", [40, 64])
def test_repeating_where_there_is_no_room_for_more_dimensions(rank) -> None:
    shape = [1] * rank
    shape[3], shape[rank - 1], shape[20] = 2, 3, 2
    x = facula.arange(12.0).reshape(shape).requires_grad_()
    small = x.detach().reshape(2, 2, 3).numpy()
    counts = [1] * rank
    counts[3], counts[5], counts[rank - 1] = 2, 2, 3
    tiled = np.tile(small.reshape(2, 1, 2, 3), (2, 2, 1, 3))
    repeated = x.repeat(counts)
    assert repeated.dim() == rank and np.array_equal(repeated.detach().squeeze().numpy(), tiled)
    repeated.sum().backward()
    assert np.array_equal(x.grad.flatten().numpy(), np.full(12, 12.0))
    rows = x.detach().repeat_interleave(2, 20)
    assert rows.shape[20] == 4 and np.array_equal(rows.squeeze().numpy(), np.repeat(small, 2, 1))
