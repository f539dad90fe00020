"""Scripted attention, transformers and recurrent cells: they are saved, and give the numbers of their modules.

What they give in Python is judged elsewhere; here scripts are compared with that.
"""

import io

import pytest

import facula
from facula import nn


def reloaded(module):
    file = io.BytesIO()
    facula.jit.save(facula.jit.script(module.eval()), file)
    file.seek(0)
    return facula.jit.load(file)


def wave(*sizes):
    count = facula.Size(sizes).numel()
    return facula.arange(1.0, count + 1).mul(0.37).sin().view(sizes)


PADDING = facula.tensor([[False, True, False, False, True], [False] * 5])
CAUSAL = facula.ones(4, 5).triu(1).bool()
ATTENTIONS = [
    ({}, {}),
    ({"bias": False}, {"need_weights": False}),
    ({}, {"key_padding_mask": PADDING}),
    ({}, {"key_padding_mask": PADDING, "attn_mask": CAUSAL, "average_attn_weights": False}),
    ({"add_bias_kv": True, "add_zero_attn": True}, {"key_padding_mask": PADDING}),
]


def close(have, wanted):
    if wanted is None:
        assert have is None
    else:
        facula.testing.assert_close(have, wanted)


@pytest.mark.parametrize(("options", "given"), ATTENTIONS)
def test_attention_compared_with_its_module(options, given):
    module = nn.MultiheadAttention(8, 2, **options).eval()
    q, k = wave(4, 2, 8), wave(5, 2, 8)
    for have, wanted in zip(
        reloaded(module)(q, k, k, **given), module(q, k, k, **given), strict=True
    ):
        close(have, wanted)


def test_attention_of_other_widths_and_without_a_batch_compared_with_its_module():
    module = nn.MultiheadAttention(8, 2, kdim=3, vdim=6, batch_first=True).eval()
    scripted = reloaded(module)
    for sizes in ((), (2,)):
        q, k, v = wave(*sizes, 4, 8), wave(*sizes, 5, 3), wave(*sizes, 5, 6)
        for have, wanted in zip(scripted(q, k, v), module(q, k, v), strict=True):
            close(have, wanted)


def test_a_hint_that_a_mask_is_causal_needs_the_mask():
    x = wave(4, 2, 8)
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        facula.jit.script(nn.MultiheadAttention(8, 2))(x, x, x, is_causal=True)


@pytest.mark.parametrize("first", [False, True])
def test_transformers_compared_with_their_modules(first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, norm_first=first, activation="gelu")
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False).eval()
    x = wave(5, 2, 8)
    close(
        reloaded(encoder)(x, src_key_padding_mask=PADDING),
        encoder(x, src_key_padding_mask=PADDING),
    )
    whole = nn.Transformer(8, 2, 1, 1, 16).eval()
    close(reloaded(whole)(x, wave(4, 2, 8)), whole(x, wave(4, 2, 8)))


CELLS = [nn.LSTMCell(8, 3), nn.GRUCell(8, 3, bias=False), nn.RNNCell(8, 3, nonlinearity="relu")]


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: type(c).__name__)
def test_recurrent_cells_compared_with_their_modules(cell):
    scripted = reloaded(cell)
    for x in (wave(2, 8), wave(8)):
        states = cell(x)
        for given in ((), (states,)):
            have, wanted = scripted(x, *given), cell(x, *given)
            pairs = (
                zip(have, wanted, strict=True) if isinstance(wanted, tuple) else [(have, wanted)]
            )
            for each in pairs:
                close(*each)


class Forked(nn.Module):
    """Starts a module of its own, several times."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        futures = [facula.jit.fork(self.layer, x * i) for i in range(3)]
        return facula.stack([facula.jit.wait(f) for f in futures])


def test_a_module_that_is_started_is_a_method_in_the_file():
    module = Forked().eval()
    x = wave(2, 3)
    wanted = facula.stack([x * i @ module.layer.weight.t() + module.layer.bias for i in range(3)])
    close(reloaded(module)(x), wanted)
