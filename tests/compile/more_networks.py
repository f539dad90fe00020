"""Networks for `test_compiled_networks`: layers with state of their own, losses, sequences, graphs.

Gives: `NETWORKS`, name -> a function that makes (module, inputs); `BREAKING`, the same for modules whose
Python asks for values, so that they are several graphs.
"""

from __future__ import annotations

import collections
import math

import facula
from facula import nn
from facula.distributions import Categorical, Normal, kl_divergence
from facula.nn import functional as F
from facula.nn.utils import rnn

NETWORKS = {}
BREAKING = {}
randn, randint = facula.randn, facula.randint


def network(make):
    NETWORKS[make.__name__] = make
    return make


class Packed(nn.Module):
    """A recurrent network on sequences of several lengths."""

    def __init__(self, kind, lengths, **options):
        super().__init__()
        self.part, self.lengths = kind(4, 5, batch_first=True, **options), lengths

    def forward(self, x):
        packed = rnn.pack_padded_sequence(x, self.lengths, batch_first=True, enforce_sorted=False)
        found, state = self.part(packed)
        return *rnn.pad_packed_sequence(found, batch_first=True), state


def packed():
    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        yield (
            f"packed {kind.__name__}",
            lambda kind=kind: (Packed(kind, facula.tensor([2, 3])), (randn(2, 3, 4),)),
        )
        both = {"bidirectional": True, "num_layers": 2}
        yield (
            f"packed {kind.__name__} of two layers, both ways",
            lambda kind=kind, both=both: (
                Packed(kind, facula.tensor([3, 1]), **both),
                (randn(2, 3, 4),),
            ),
        )


BREAKING.update(packed())


def layers():
    yield "RNN without a batch", lambda: (nn.RNN(4, 5), (randn(3, 4),))
    yield "LSTM with a projection", lambda: (nn.LSTM(4, 6, proj_size=3), (randn(3, 2, 4),))
    yield (
        "attention to other widths",
        lambda: (
            nn.MultiheadAttention(
                8, 2, kdim=6, vdim=5, batch_first=True, add_bias_kv=True, add_zero_attn=True
            ),
            (randn(2, 3, 8), randn(2, 4, 6), randn(2, 4, 5)),
        ),
    )
    yield "bag of words", lambda: (nn.EmbeddingBag(10, 3, mode="sum"), (randint(0, 10, (2, 4)),))
    yield (
        "bags by offsets",
        lambda: (nn.EmbeddingBag(10, 3), (randint(0, 10, (6,)), facula.tensor([0, 2]))),
    )
    yield "bilinear", lambda: (nn.Bilinear(3, 4, 5), (randn(2, 3), randn(2, 4)))
    yield (
        "shuffled pixels",
        lambda: (
            nn.Sequential(nn.Conv2d(4, 4, 1), nn.PixelShuffle(2), nn.PixelUnshuffle(2)),
            (randn(2, 4, 4, 4),),
        ),
    )
    yield (
        "activations",
        lambda: (
            nn.Sequential(nn.PReLU(4), nn.Softshrink(), nn.GLU(), nn.Hardswish()),
            (randn(2, 4),),
        ),
    )
    spectral = nn.utils.spectral_norm
    yield "spectral norm by a hook", lambda: (spectral(nn.Linear(3, 4)), (randn(2, 3),))


NETWORKS.update(layers())


@network
def unpooled():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Conv2d(3, 3, 1)
            self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

        def forward(self, x):
            return self.unpool(*self.pool(self.part(x)))

    return Net(), (randn(2, 3, 4, 4),)


@network
def named_tuple_of_results():
    Result = collections.namedtuple("Result", "y total")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Linear(3, 4)

        def forward(self, x):
            return Result(self.part(x), x.sum())

    return Net(), (randn(2, 3),)


@network
def kept_keys():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(4, 12)
            self.register_buffer("kept", facula.zeros(2, 8, 4))

        def forward(self, x, place):
            q, k, v = self.qkv(x).chunk(3, -1)
            keys = self.kept.clone()
            keys[:, place : place + x.shape[1]] = k
            weights = (q @ keys.transpose(1, 2) / math.sqrt(q.size(-1))).softmax(-1)
            return weights @ keys + v.mean()

    return Net(), (randn(2, 2, 4), 3)


@network
def branches():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Conv2d(3, 2, k, padding=k // 2) for k in (1, 3, 5)])

        def forward(self, x):
            found = [F.relu(part(x), inplace=True) for part in self.parts]
            return facula.cat([*found, F.max_pool2d(x, 3, 1, 1)], dim=1).flatten(1)

    return Net(), (randn(2, 3, 6, 6),)


@network
def chain_of_hooks():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    net[0].register_forward_hook(lambda module, inputs, output: output * 2)
    net[2].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    return net, (randn(2, 3),)


@network
def assigned_buffers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", facula.zeros(3))
            self.part, self.calls, self.history = nn.Linear(3, 3), 0, []

        def forward(self, x):
            self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
            self.calls += 1
            self.history.append(self.calls)
            return self.part(x - self.mean), len(self.history)

    return Net(), (randn(2, 3),)


@network
def slices_and_lists():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU())
            self.more = nn.ParameterDict({"shift": nn.Parameter(facula.ones(3))})

        def forward(self, x):
            shift = self.more["shift"] if "shift" in self.more else 0
            count = sum(p.numel() for name, p in self.named_parameters() if "weight" in name)
            return self.parts[:2](x) + self.parts[-1](x) + self.parts[2](x + shift), count

    return Net(), (randn(2, 3),)


@network
def triplets():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.loss = nn.Linear(3, 3), nn.TripletMarginLoss()

        def forward(self, a, b, c):
            return self.loss(*map(self.part, (a, b, c))), F.cosine_similarity(self.part(a), b)

    return Net(), (randn(2, 3), randn(2, 3), randn(2, 3))


@network
def dropped():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
            self.dropout, self.alpha, self.share = nn.Dropout(0.5), nn.AlphaDropout(0.2), 0.0

        def forward(self, x):
            for part in self.parts:
                if self.training and self.share > 0 and facula.rand(1).item() < self.share:
                    continue
                x = part(x)
            return self.alpha(self.dropout(x))

    return Net(), (randn(2, 3),)


@network
def windows():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.size = nn.Linear(4, 4), 2

        def forward(self, x):
            batch, height, width, count = x.shape
            rows, columns, size = height // self.size, width // self.size, self.size
            x = facula.roll(x, shifts=(-1, -1), dims=(1, 2))
            x = x.view(batch, rows, size, columns, size, count).permute(0, 1, 3, 2, 4, 5)
            x = self.part(x.contiguous().view(-1, size, size, count))
            x = x.view(batch, rows, columns, size, size, -1).permute(0, 1, 3, 2, 4, 5)
            return facula.roll(x.contiguous().view(batch, height, width, -1), (1, 1), (1, 2))

    return Net(), (randn(2, 4, 4, 4),)


@network
def pyramid():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)
            self.side = nn.Conv2d(4, 4, 1)

        def forward(self, x):
            a = self.first(x)
            up = F.interpolate(self.side(self.second(a)), size=a.shape[-2:], mode="nearest")
            return F.adaptive_avg_pool2d(up + a, (1, 1)).flatten(1), F.pad(up, (1, 1, 0, 0))

    return Net(), (randn(2, 3, 9, 9),)


@network
def capsules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(randn(3, 2, 2, 3))

        def squash(self, v):
            norm = (v**2).sum(-1, keepdim=True)
            return norm / (1 + norm) * v / (norm.sqrt() + 1e-8)

        def forward(self, x):
            votes = facula.einsum("bif,iofk->biok", x, self.weight)
            logits = facula.zeros(votes.shape[:3])
            for last in (False, True):
                found = self.squash((logits.softmax(-1)[..., None] * votes).sum(1))
                if not last:
                    logits = logits + (votes * found[:, None]).sum(-1)
            return found

    return Net(), (randn(2, 3, 2),)


@network
def random_field():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps, self.starts = nn.Parameter(randn(3, 3)), nn.Parameter(randn(3))

        def forward(self, scores, tags, there):
            total = self.starts + scores[0]
            for i in range(1, scores.size(0)):
                longer = total.unsqueeze(2) + self.steps + scores[i].unsqueeze(1)
                longer = facula.logsumexp(longer, dim=1)
                total = facula.where(there[i].unsqueeze(1), longer, total)
            chosen = scores.gather(2, tags[..., None]).squeeze(-1).sum(0)
            return facula.logsumexp(total, 1) - chosen

    inputs = (randn(4, 2, 3), randint(0, 3, (4, 2)), facula.ones(4, 2, dtype=facula.bool))
    return Net(), inputs


@network
def policies():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.choice, self.amount = nn.Linear(3, 4), nn.Linear(3, 4)

        def forward(self, x, actions):
            choices = Categorical(logits=self.choice(x))
            mean, spread = self.amount(x).chunk(2, -1)
            amounts = Normal(mean, F.softplus(spread) + 1e-3)
            distance = kl_divergence(amounts, Normal(0.0, 1.0)).sum()
            return choices.log_prob(actions), choices.entropy(), distance

    return Net(), (randn(2, 3), facula.tensor([1, 2]))


@network
def alignments():
    lengths = facula.tensor([5, 5]), facula.tensor([3, 2])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.loss = nn.Linear(4, 6), nn.CTCLoss()

        def forward(self, x, targets):
            return self.loss(self.part(x).log_softmax(-1), targets, *lengths)

    return Net(), (randn(5, 2, 4), randint(1, 6, (2, 3)))


def adaptive():
    return nn.AdaptiveLogSoftmaxWithLoss(32, 20, [5, 10]), (randn(4, 32), randint(0, 20, (4,)))


BREAKING["adaptive softmax"] = adaptive
