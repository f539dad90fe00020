"""T5 against the same sums in NumPy: biases by distance, unscaled attention, norms without a mean."""

import math

import numpy as np
import pytest

import facula
from facula.text.models import T5Conf, T5Model
from facula.text.t5 import bucket

SIZES = dict(
    embedding_dim=8, qkv_dim=3, num_attention_heads=2, num_encoder_layers=2, num_decoder_layers=2,
    ffn_dimension=10, vocab_size=15, relative_attention_num_buckets=8,
    relative_attention_max_distance=12,
)  # fmt: skip


def norm(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bucket_of(distance, buckets, farthest, both_ways):
    """One distance, by the words of the article."""
    start = 0
    if both_ways:
        buckets //= 2
        start, distance = (buckets if distance > 0 else 0), abs(distance)
    else:
        distance = max(-distance, 0)
    near = buckets // 2
    if distance < near:
        return start + distance
    share = math.log(distance / near) / math.log(farthest / near)
    return start + min(near + int(share * (buckets - near)), buckets - 1)


def attention(w, name, x, memory, added):
    def heads(y, kind):
        rows = y @ w[f"{name}.{kind}_proj_weight"].T
        return rows.reshape(*rows.shape[:2], 2, 3).transpose(0, 2, 1, 3)

    scores = np.einsum("bhqd,bhkd->bhqk", heads(x, "q"), heads(memory, "k")) + added
    found = np.einsum("bhqk,bhkd->bqhd", softmax(scores), heads(memory, "v"))
    return found.reshape(*x.shape[:2], 6) @ w[f"{name}.out_proj.weight"].T


def activation(kind):
    if kind == "relu":
        return lambda x: np.maximum(x, 0)
    return lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def side(w, name, x, mask, memory=None, memory_mask=0.0, act="relu"):
    count = x.shape[1]
    table = w[f"{name}.layers.0.self_attn.relative_attention_bias.weight"]
    numbers = [
        [bucket_of(k - q, 8, 12, name == "encoder") for k in range(count)] for q in range(count)
    ]
    bias = table[np.array(numbers)].transpose(2, 0, 1)[None]
    for i in range(2):
        layer = f"{name}.layers.{i}"
        y = norm(x, w[f"{layer}.norm1.weight"])
        x = x + attention(w, f"{layer}.self_attn", y, y, bias + mask)
        if memory is not None:
            y = norm(x, w[f"{layer}.norm3.weight"])
            x = x + attention(w, f"{layer}.cross_attn", y, memory, memory_mask)
        y = norm(x, w[f"{layer}.norm2.weight"])
        if act == "relu":
            y = activation(act)(y @ w[f"{layer}.linear1.weight"].T)
        else:
            gate = activation(act)(y @ w[f"{layer}.linear1_0.weight"].T)
            y = gate * (y @ w[f"{layer}.linear1_1.weight"].T)
        x = x + y @ w[f"{layer}.linear2.weight"].T
    return norm(x, w[f"{name}.norm.weight"])


def by_numpy(model, words, said, act="relu"):
    w = {name: value.double().numpy() for name, value in model.state_dict().items()}
    table, hidden = w["token_embeddings.weight"], -1e30
    padding = np.where(words == 0, hidden, 0.0)[:, None, None]
    memory = side(w, "encoder", table[words], padding, act=act)
    unseen = np.where(said == 0, hidden, 0.0)[:, None, None]
    unseen[..., 0] = 0.0
    later = np.triu(np.full((said.shape[1],) * 2, hidden), 1)
    out = side(w, "decoder", table[said], later + unseen, memory, padding, act)
    return memory, out * 8**-0.5 @ w["lm_head.weight"].T


WORDS = np.array([[3, 7, 2, 9, 4, 1, 0, 0], [5, 1, 0, 0, 0, 0, 0, 0]])
SAID = np.array([[0, 4, 6, 11], [0, 2, 0, 0]])


@pytest.mark.parametrize("act", ["relu", "gated-gelu"])
def test_words_are_read_and_written_as_in_numpy(act):
    facula.manual_seed(3)
    model = T5Model(T5Conf(**SIZES, linear_head=True, feed_forward_proj=act)).double()
    found = model(facula.tensor(WORDS), facula.tensor(SAID))
    memory, scores = by_numpy(model, WORDS, SAID, act)
    np.testing.assert_allclose(
        found["encoder_output"].detach().numpy(), memory, rtol=1e-9, atol=1e-11
    )
    np.testing.assert_allclose(
        found["decoder_output"].detach().numpy(), scores, rtol=1e-9, atol=1e-11
    )
    assert len(found["encoder_hidden_states"]) == 3 and len(found["decoder_ca_scores"]) == 2
    assert found["encoder_position_bias"].shape == (1, 2, 8, 8)
    for weights in (*found["encoder_sa_scores"], *found["decoder_ca_scores"]):
        facula.testing.assert_close(weights.sum(-1), facula.ones_like(weights[..., 0]))
        assert weights[0, ..., 6:].abs().max() == 0  # padding


@pytest.mark.parametrize("both_ways", [True, False])
def test_far_distances_share_buckets(both_ways):
    distances = facula.arange(-200, 201)
    found = bucket(distances, 32, 128, both_ways).tolist()
    assert found == [bucket_of(int(d), 32, 128, both_ways) for d in distances]
    assert max(found) == 31 and min(found) == 0


def test_words_one_by_one_are_those_of_a_sentence():
    model = T5Model(T5Conf(**SIZES, linear_head=True)).double()
    words, said = facula.tensor(WORDS[:1]), facula.tensor(SAID[:1])
    whole = model(words, said)
    step = model(words, said[:, :1], return_past_key_values=True)
    rows = [step["decoder_output"]]
    unseen = words.eq(0)
    for i in range(1, 4):
        step = model(
            decoder_tokens=said[:, i : i + 1],
            encoder_outputs=step,
            encoder_padding_mask=unseen,
            past_key_values=step["past_key_values"],
            return_past_key_values=True,
        )
        rows.append(step["decoder_output"])
    facula.testing.assert_close(facula.cat(rows, 1), whole["decoder_output"])


def test_names_of_parameters_are_those_of_files():
    names = set(T5Model(T5Conf(**SIZES)).state_dict())
    expected = {"token_embeddings.weight", "encoder.token_embeddings.weight"}
    for part, parts in (("encoder", ("self",)), ("decoder", ("self", "cross"))):
        expected |= {f"{part}.norm.weight"}
        expected |= {f"{part}.layers.0.self_attn.relative_attention_bias.weight"}
        for i in range(2):
            layer = f"{part}.layers.{i}"
            expected |= {f"{layer}.linear{n}.weight" for n in (1, 2)}
            expected |= {f"{layer}.norm{n}.weight" for n in range(1, len(parts) + 2)}
            for kind in parts:
                attn = f"{layer}.{kind}_attn"
                expected |= {f"{attn}.{n}_proj_weight" for n in "qkv"} | {f"{attn}.out_proj.weight"}
    assert names == expected


def test_gradients_reach_all_parameters_unless_frozen():
    model = T5Model(T5Conf(**SIZES, linear_head=True))
    model(facula.tensor(WORDS), facula.tensor(SAID))["decoder_output"].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    frozen = T5Model(T5Conf(**SIZES, encoder_only=True), freeze=True)
    assert not any(p.requires_grad for p in frozen.parameters()) and frozen.get_decoder() is None
    out = frozen(facula.tensor(WORDS))
    assert set(out) == {
        "encoder_output", "encoder_hidden_states", "encoder_position_bias", "encoder_sa_scores",
    }  # fmt: skip
    first = T5Model(T5Conf(**SIZES))(facula.tensor(WORDS))["decoder_output"]
    assert first.shape == (2, 1, 8)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="'gated-NAME' or 'NAME'"):
        T5Conf(feed_forward_proj="wide-gelu")
    with pytest.raises(ValueError, match="as activation"):
        T5Conf(activation="step")
    with pytest.raises(ValueError, match="encoder_tokens were required"):
        T5Model(T5Conf(**SIZES))()
    assert T5Conf(activation=facula.tanh).activated(facula.zeros(1)).item() == 0
