"""Random numbers under `vmap`: those of one call for the whole batch, in parts the same as in one piece."""

import pytest

import facula


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 7])
def test_the_same_numbers_for_all_entries_also_in_parts(chunk_size):
    x = facula.randn(5, 3)

    def f(row):
        return row + facula.rand_like(row), facula.randn(2)

    facula.manual_seed(3)
    wanted = facula.vmap(f, randomness="same", out_dims=(0, None))(x)
    facula.manual_seed(3)
    found = facula.vmap(f, randomness="same", out_dims=(0, None), chunk_size=chunk_size)(x)
    assert facula.equal(found[0], wanted[0])
    assert facula.equal(found[1], wanted[1])
    after = facula.rand(3)
    facula.manual_seed(3)
    facula.vmap(f, randomness="same", out_dims=(0, None))(x)
    assert facula.equal(facula.rand(3), after)


#: operators whose parameters are tensors, each a function of probabilities
OF_PARAMETERS = {
    "bernoulli": facula.bernoulli,
    "binomial": lambda p: facula.binomial(facula.full_like(p, 90.0), p),
    "dirichlet": lambda p: facula._sample_dirichlet(p),
    "gamma": lambda p: facula._standard_gamma(p),
    "multinomial": lambda p: facula.multinomial(p, 40, True),
    "normal": lambda p: facula.normal(p, p),
    "poisson": lambda p: facula.poisson(p * 50),
}


@pytest.fixture(params=["facula", "torch"])
def stream(request):
    before = facula.random.get_stream()
    facula.random.set_stream(request.param)
    yield request.param
    facula.random.set_stream(before)


#: and operators whose draws take the shape of a tensor
OF_SHAPES = {
    "dropout": facula.nn.functional.dropout,
    "rrelu": lambda p: facula.nn.functional.rrelu(-p, training=True),
}


@pytest.mark.parametrize("name", [*OF_PARAMETERS, *OF_SHAPES])
@pytest.mark.parametrize("mapped", [True, False])
def test_different_numbers_also_where_the_parameters_are_the_same(name, mapped, stream):
    op = OF_PARAMETERS.get(name) or OF_SHAPES[name]
    one = facula.linspace(0.2, 0.7, 32).reshape(2, 16)
    rows = one.expand(3, 2, 16)
    flat = rows.reshape(6, 16) if name == "multinomial" else rows  # which takes matrices at most
    facula.manual_seed(5)
    wanted = op(flat.contiguous()).reshape(3, 2, -1)
    facula.manual_seed(5)
    found = facula.vmap(
        lambda p, _: op(p), in_dims=(0 if mapped else None, 0), randomness="different"
    )(rows if mapped else one, facula.zeros(3))
    assert facula.equal(found, wanted)
    assert not facula.equal(found[0], found[1]) and not facula.equal(found[1], found[2])


@pytest.mark.parametrize("name", OF_PARAMETERS)
def test_parameters_follow_the_kind_of_randomness(name):
    op, one = OF_PARAMETERS[name], facula.full((16,), 0.4)
    rows = facula.stack([one, one * 0.5])
    kinds = {"randomness": "same"}
    found = facula.vmap(lambda _: op(one), **kinds)(rows)
    assert facula.equal(found[0], found[1])
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        facula.vmap(op, **kinds)(rows)
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        facula.vmap(lambda p: facula.vmap(lambda _: op(p), **kinds)(rows), **kinds)(rows)
    for f in (op, lambda _: op(one)):
        with pytest.raises(RuntimeError, match="randomness error mode"):
            facula.vmap(f)(rows)


def test_integers_of_a_tensor_that_is_the_same_for_all(stream):
    x = facula.zeros(20)
    found = facula.vmap(lambda _: facula.randint_like(x, 1000), randomness="different")(x[:3])
    assert found.dtype == facula.float32 and not facula.equal(found[0], found[1])


@pytest.mark.parametrize(
    "write", [facula.Tensor.uniform_, facula.Tensor.random_, facula.Tensor.bernoulli_]
)
def test_one_tensor_does_not_hold_different_numbers(write):
    x = facula.zeros(5)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        facula.vmap(lambda _: write(x), randomness="different")(x)
    with pytest.raises(RuntimeError, match="calling out variants"):
        facula.vmap(lambda _: facula.rand(5, out=x), randomness="same")(x)
    assert facula.equal(x, facula.zeros(5))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_the_order_of_memory_is_kept(dim, stream):
    shape = [2, 3, 5]
    shape.insert(dim % 4, 4)
    x = facula.zeros(shape)
    ops = (facula.rand_like, lambda t: t.clone().normal_(), lambda t: facula.randint_like(t, 99))
    for op in ops:
        facula.manual_seed(1)
        found = facula.vmap(op, in_dims=dim, randomness="different")(x)
        facula.manual_seed(1)
        assert facula.equal(found, op(x.movedim(dim, 0)))
        facula.manual_seed(1)
        found = facula.vmap(op, in_dims=dim, randomness="same")(x)
        facula.manual_seed(1)
        assert facula.equal(found[3], op(x.movedim(dim, 0)[0]))
