"""What one call of a small operator costs: `python benchmarks/small_operators.py [--torch PYTHON]`.

Takes the operators among the most used names of a ranking (`--ranking`, a Markdown table whose
second column holds names) or all of the table, with their definitions' samples, and the programs
below; each runs in its own interpreter, facula's and (with `--torch`) one that has PyTorch.
Gives microseconds per call, sorted by the ratio to PyTorch's. Keeps true: both run the same
arguments on one thread, in turns, and the least time of several rounds counts.
"""

import argparse
import json
import math
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: forms that are no operator of the table: name -> (what is made before, the statement)
PROGRAMS: dict[str, tuple[str, str]] = {
    "index [:, None]": ("x = r(4, 8)", "x[:, None]"),
    "index [mask]": ("x = r(4, 8); m = x > 0", "x[m]"),
    "index [i, j]": ("x = r(4, 8); i = T.tensor([0, 1]); j = T.tensor([2, 3])", "x[i, j]"),
    "index [i]": ("x = r(4, 8); i = T.tensor([0, 1])", "x[i]"),
    "index [0]": ("x = r(4, 8)", "x[0]"),
    "index [1, 2]": ("x = r(4, 8)", "x[1, 2]"),
    "index [..., 0]": ("x = r(4, 8)", "x[..., 0]"),
    "index [1:3]": ("x = r(4, 8)", "x[1:3]"),
    "index [:, 1:3]": ("x = r(4, 8)", "x[:, 1:3]"),
    "index [-1, ::2]": ("x = r(4, 8)", "x[-1, ::2]"),
    "write [0] = 1": ("x = r(4, 8)", "x[0] = 1.0"),
    "write [:, 0] = y": ("x = r(4, 8); y = r(4)", "x[:, 0] = y"),
    "write [mask] = 0": ("x = r(4, 8); m = x > 0", "x[m] = 0.0"),
    "write [i] = y": ("x = r(4, 8); i = T.tensor([0, 1]); y = r(2, 8)", "x[i] = y"),
    "item": ("x = r(1)", "x.item()"),
    "float(t)": ("x = r(1)", "float(x)"),
    "bool(t)": ("x = r(1)", "bool(x)"),
    "tolist": ("x = r(8)", "x.tolist()"),
    "numpy": ("x = r(8)", "x.numpy()"),
    "from_numpy": ("import numpy; a = numpy.zeros(8, numpy.float32)", "T.from_numpy(a)"),
    "tensor(1.0)": ("", "T.tensor(1.0)"),
    "tensor([1., 2., 3.])": ("", "T.tensor([1.0, 2.0, 3.0])"),
    "tensor([[1, 2], [3, 4]])": ("", "T.tensor([[1, 2], [3, 4]])"),
    "tensor(array)": ("import numpy; a = numpy.zeros(8, numpy.float32)", "T.tensor(a)"),
    "as_tensor(x)": ("x = r(8)", "T.as_tensor(x)"),
    "zeros(2, 3)": ("", "T.zeros(2, 3)"),
    "zeros((2, 3))": ("", "T.zeros((2, 3))"),
    "zeros(dtype=)": ("", "T.zeros(2, 3, dtype=T.int64)"),
    "zeros(device=)": ("", "T.zeros(2, 3, device='cpu')"),
    "ones(2, 3)": ("", "T.ones(2, 3)"),
    "empty(2, 3)": ("", "T.empty(2, 3)"),
    "full((2, 3), 1.)": ("", "T.full((2, 3), 1.0)"),
    "arange(8)": ("", "T.arange(8)"),
    "arange(0, 8, 2)": ("", "T.arange(0, 8, 2)"),
    "arange(device=)": ("", "T.arange(8, device='cpu')"),
    "linspace": ("", "T.linspace(0, 1, 8)"),
    "eye(3)": ("", "T.eye(3)"),
    "randn(2, 3)": ("", "T.randn(2, 3)"),
    "rand(2, 3)": ("", "T.rand(2, 3)"),
    "randint": ("", "T.randint(0, 8, (4,))"),
    "randperm(8)": ("", "T.randperm(8)"),
    "zeros_like": ("x = r(4, 8)", "T.zeros_like(x)"),
    "ones_like": ("x = r(4, 8)", "T.ones_like(x)"),
    "empty_like": ("x = r(4, 8)", "T.empty_like(x)"),
    "full_like": ("x = r(4, 8)", "T.full_like(x, 2.0)"),
    "randn_like": ("x = r(4, 8)", "T.randn_like(x)"),
    "rand_like": ("x = r(4, 8)", "T.rand_like(x)"),
    "new_zeros": ("x = r(4, 8)", "x.new_zeros(2, 3)"),
    "new_ones": ("x = r(4, 8)", "x.new_ones((2, 3))"),
    "new_tensor": ("x = r(4, 8)", "x.new_tensor([1.0, 2.0])"),
    "to(float64)": ("x = r(4, 8)", "x.to(T.float64)"),
    "to(same)": ("x = r(4, 8)", "x.to(T.float32)"),
    "to('cpu')": ("x = r(4, 8)", "x.to('cpu')"),
    "to(device=, dtype=)": ("x = r(4, 8)", "x.to(device='cpu', dtype=T.float64)"),
    "float()": ("x = T.arange(8)", "x.float()"),
    "long()": ("x = r(8)", "x.long()"),
    "clone": ("x = r(4, 8)", "x.clone()"),
    "detach": ("x = r(4, 8).requires_grad_()", "x.detach()"),
    "contiguous (t)": ("x = r(4, 8).t()", "x.contiguous()"),
    "copy_": ("x = r(4, 8); y = r(4, 8)", "x.copy_(y)"),
    "fill_": ("x = r(4, 8)", "x.fill_(1.0)"),
    "zero_": ("x = r(4, 8)", "x.zero_()"),
    "add_": ("x = r(4, 8); y = r(4, 8)", "x.add_(y)"),
    "add_ alpha": ("x = r(4, 8); y = r(4, 8) * 0", "x.add_(y, alpha=0.5)"),
    "mul_ number": ("x = r(4, 8)", "x.mul_(1.0)"),
    "normal_": ("x = r(4, 8)", "x.normal_()"),
    "uniform_": ("x = r(4, 8)", "x.uniform_(-1, 1)"),
    "bernoulli_": ("x = r(4, 8)", "x.bernoulli_(0.5)"),
    "a + b": ("x = r(8); y = r(8)", "x + y"),
    "a + broadcast": ("x = r(4, 8); y = r(8)", "x + y"),
    "a + 1": ("x = r(8)", "x + 1"),
    "a ** 2": ("x = r(8)", "x ** 2"),
    "a == b": ("x = r(8); y = r(8)", "x == y"),
    "a > 0": ("x = r(8)", "x > 0"),
    "~mask": ("x = r(8) > 0", "~x"),
    "1 - a": ("x = r(8)", "1 - x"),
    "i64 + f32": ("x = T.arange(8); y = r(8)", "x + y"),
    "strided + b": ("x = r(4, 4).t(); y = r(4, 4)", "x + y"),
    "exp of strided": ("x = r(4, 4).t()", "x.exp()"),
    "cat": ("x = r(4, 8); y = r(4, 8)", "T.cat([x, y])"),
    "cat dim": ("x = r(4, 8); y = r(4, 8)", "T.cat([x, y], dim=-1)"),
    "stack": ("x = r(4, 8); y = r(4, 8)", "T.stack([x, y])"),
    "split": ("x = r(4, 8)", "x.split(2)"),
    "chunk": ("x = r(4, 8)", "x.chunk(2, dim=-1)"),
    "unbind": ("x = r(4, 8)", "x.unbind(0)"),
    "permute": ("x = r(2, 4, 8)", "x.permute(0, 2, 1)"),
    "expand": ("x = r(1, 8)", "x.expand(4, -1)"),
    "repeat": ("x = r(2, 4)", "x.repeat(2, 1)"),
    "flatten(1)": ("x = r(2, 4, 8)", "x.flatten(1)"),
    "size(0)": ("x = r(2, 4)", "x.size(0)"),
    "sum()": ("x = r(4, 8)", "x.sum()"),
    "sum(dim=(0, 1))": ("x = r(2, 4, 8)", "x.sum(dim=(0, 1))"),
    "mean(-1)": ("x = r(4, 8)", "x.mean(-1)"),
    "mean(-1, keepdim)": ("x = r(4, 8)", "x.mean(-1, keepdim=True)"),
    "mean(dim=(2, 3))": ("x = r(2, 3, 4, 4)", "x.mean(dim=(2, 3))"),
    "sum i64": ("x = T.arange(8)", "x.sum()"),
    "sum mask": ("x = r(8) > 0", "x.sum()"),
    "max()": ("x = r(4, 8)", "x.max()"),
    "max(1)": ("x = r(4, 8)", "x.max(1)"),
    "argmax(-1)": ("x = r(4, 8)", "x.argmax(-1)"),
    "amax(-1)": ("x = r(4, 8)", "x.amax(-1, keepdim=True)"),
    "any": ("x = r(4, 8) > 0", "x.any()"),
    "all": ("x = r(4, 8) > 0", "x.all()"),
    "all(1)": ("x = r(4, 8) > 0", "x.all(1)"),
    "prod": ("x = r(8)", "x.prod()"),
    "var": ("x = r(4, 8)", "x.var(-1)"),
    "std": ("x = r(4, 8)", "x.std()"),
    "norm": ("x = r(4, 8)", "x.norm()"),
    "norm(2, -1)": ("x = r(4, 8)", "x.norm(p=2, dim=-1, keepdim=True)"),
    "linalg.vector_norm": ("x = r(4, 8)", "T.linalg.vector_norm(x, dim=-1)"),
    "linalg.norm": ("x = r(4, 8)", "T.linalg.norm(x, dim=-1)"),
    "logsumexp": ("x = r(4, 8)", "x.logsumexp(-1)"),
    "cumsum": ("x = r(4, 8)", "x.cumsum(-1)"),
    "sort": ("x = r(8)", "x.sort()"),
    "argsort": ("x = r(8)", "x.argsort()"),
    "topk": ("x = r(4, 8)", "x.topk(2)"),
    "nonzero": ("x = r(8) > 0", "x.nonzero()"),
    "unique": ("x = T.tensor([1, 2, 1, 3])", "T.unique(x)"),
    "where(c, a, b)": ("x = r(4, 8); y = r(4, 8); m = x > 0", "T.where(m, x, y)"),
    "where(c, a, 0)": ("x = r(4, 8); m = x > 0", "T.where(m, x, 0.0)"),
    "masked_fill": ("x = r(4, 8); m = x > 0", "x.masked_fill(m, 0.0)"),
    "clamp(min=)": ("x = r(4, 8)", "x.clamp(min=0.0)"),
    "clamp(0, 1)": ("x = r(4, 8)", "x.clamp(0, 1)"),
    "gather": ("x = r(4, 8); i = T.zeros(4, 1, dtype=T.int64)", "x.gather(1, i)"),
    "scatter_": ("x = r(4, 8); i = T.zeros(4, 1, dtype=T.int64)", "x.scatter_(1, i, 1.0)"),
    "index_select": ("x = r(4, 8); i = T.tensor([0, 1])", "x.index_select(0, i)"),
    "tril": ("x = r(4, 4)", "x.tril()"),
    "triu(ones)": ("x = r(4, 4)", "T.triu(x, diagonal=1)"),
    "matmul 2d": ("x = r(4, 8); y = r(8, 4)", "x @ y"),
    "matmul 3d": ("x = r(2, 4, 8); y = r(2, 8, 4)", "x @ y"),
    "matmul 4d t": ("x = r(2, 2, 4, 8); y = r(2, 2, 4, 8)", "x @ y.transpose(-2, -1)"),
    "matmul 1d": ("x = r(4, 8); y = r(8)", "x @ y"),
    "bmm": ("x = r(2, 4, 8); y = r(2, 8, 4)", "T.bmm(x, y)"),
    "dot": ("x = r(8); y = r(8)", "T.dot(x, y)"),
    "addmm": ("b = r(4); x = r(4, 8); y = r(8, 4)", "T.addmm(b, x, y)"),
    "einsum": ("x = r(4, 8); y = r(8, 4)", "T.einsum('ij,jk->ik', x, y)"),
    "outer": ("x = r(4); y = r(8)", "T.outer(x, y)"),
    "F.linear": ("x = r(4, 8); w = r(8, 8); b = r(8)", "F.linear(x, w, b)"),
    "F.relu": ("x = r(4, 8)", "F.relu(x)"),
    "F.gelu": ("x = r(4, 8)", "F.gelu(x)"),
    "F.silu": ("x = r(4, 8)", "F.silu(x)"),
    "F.leaky_relu": ("x = r(4, 8)", "F.leaky_relu(x, 0.2)"),
    "F.softmax": ("x = r(4, 8)", "F.softmax(x, dim=-1)"),
    "F.log_softmax": ("x = r(4, 8)", "F.log_softmax(x, dim=-1)"),
    "F.sigmoid": ("x = r(4, 8)", "T.sigmoid(x)"),
    "F.softplus": ("x = r(4, 8)", "F.softplus(x)"),
    "F.dropout": ("x = r(4, 8)", "F.dropout(x, 0.1, True)"),
    "F.dropout eval": ("x = r(4, 8)", "F.dropout(x, 0.1, False)"),
    "F.layer_norm": ("x = r(4, 8); w = r(8); b = r(8)", "F.layer_norm(x, (8,), w, b)"),
    "F.rms_norm": ("x = r(4, 8); w = r(8)", "F.rms_norm(x, (8,), w)"),
    "F.group_norm": ("x = r(2, 4, 4); w = r(4); b = r(4)", "F.group_norm(x, 2, w, b)"),
    "F.batch_norm": (
        "x = r(4, 8); m = r(8); v = r(8).abs() + 1; w = r(8); b = r(8)",
        "F.batch_norm(x, m, v, w, b)",
    ),
    "F.batch_norm train": (
        "x = r(4, 8); m = r(8); v = r(8).abs() + 1; w = r(8); b = r(8)",
        "F.batch_norm(x, m, v, w, b, True)",
    ),
    "F.embedding": ("w = r(8, 4); i = T.tensor([[1, 2], [3, 4]])", "F.embedding(i, w)"),
    "F.one_hot": ("i = T.tensor([1, 2])", "F.one_hot(i, 4)"),
    "F.normalize": ("x = r(4, 8)", "F.normalize(x, dim=-1)"),
    "F.mse_loss": ("x = r(4, 8); y = r(4, 8)", "F.mse_loss(x, y)"),
    "F.l1_loss": ("x = r(4, 8); y = r(4, 8)", "F.l1_loss(x, y)"),
    "F.cross_entropy": ("x = r(4, 8); y = T.tensor([1, 2, 3, 4])", "F.cross_entropy(x, y)"),
    "F.nll_loss": ("x = r(4, 8); y = T.tensor([1, 2, 3, 4])", "F.nll_loss(x, y)"),
    "F.bce_with_logits": (
        "x = r(4, 8); y = (x > 0).float()",
        "F.binary_cross_entropy_with_logits(x, y)",
    ),
    "F.cosine_similarity": ("x = r(4, 8); y = r(4, 8)", "F.cosine_similarity(x, y, dim=-1)"),
    "F.conv1d": ("x = r(1, 2, 8); w = r(2, 2, 3)", "F.conv1d(x, w, padding=1)"),
    "F.conv2d": ("x = r(1, 2, 4, 4); w = r(2, 2, 3, 3)", "F.conv2d(x, w, padding=1)"),
    "F.conv2d 1x1": ("x = r(1, 2, 4, 4); w = r(2, 2, 1, 1); b = r(2)", "F.conv2d(x, w, b)"),
    "F.conv_transpose2d": (
        "x = r(1, 2, 4, 4); w = r(2, 2, 2, 2)",
        "F.conv_transpose2d(x, w, stride=2)",
    ),
    "F.max_pool2d": ("x = r(1, 2, 4, 4)", "F.max_pool2d(x, 2)"),
    "F.avg_pool2d": ("x = r(1, 2, 4, 4)", "F.avg_pool2d(x, 2)"),
    "F.adaptive_avg_pool2d": ("x = r(1, 2, 4, 4)", "F.adaptive_avg_pool2d(x, 1)"),
    "F.interpolate": ("x = r(1, 2, 4, 4)", "F.interpolate(x, scale_factor=2)"),
    "F.pad": ("x = r(4, 8)", "F.pad(x, (1, 1))"),
    "F.attention": ("q = r(1, 2, 4, 8)", "F.scaled_dot_product_attention(q, q, q)"),
    "F.attention causal": (
        "q = r(1, 2, 4, 8)",
        "F.scaled_dot_product_attention(q, q, q, is_causal=True)",
    ),
    "no_grad": ("x = r(8)", "with T.no_grad(): pass"),
    "nn.Linear": ("m = T.nn.Linear(8, 8); x = r(4, 8)", "m(x)"),
    "nn.ReLU": ("m = T.nn.ReLU(); x = r(4, 8)", "m(x)"),
    "nn.LayerNorm": ("m = T.nn.LayerNorm(8); x = r(4, 8)", "m(x)"),
    "nn.BatchNorm2d": ("m = T.nn.BatchNorm2d(2); x = r(2, 2, 4, 4)", "m(x)"),
    "nn.Conv2d": ("m = T.nn.Conv2d(2, 2, 3); x = r(1, 2, 4, 4)", "m(x)"),
    "nn.Embedding": ("m = T.nn.Embedding(8, 4); i = T.tensor([1, 2])", "m(i)"),
    "nn.Dropout": ("m = T.nn.Dropout(0.1); x = r(4, 8)", "m(x)"),
    "nn.Identity": ("m = T.nn.Identity(); x = r(4, 8)", "m(x)"),
    "nn.Sequential": ("m = T.nn.Sequential(T.nn.Linear(8, 8), T.nn.ReLU()); x = r(4, 8)", "m(x)"),
    "nn.MultiheadAttention": ("m = T.nn.MultiheadAttention(8, 2); x = r(4, 1, 8)", "m(x, x, x)"),
    "nn.LSTM": ("m = T.nn.LSTM(4, 4); x = r(3, 2, 4)", "m(x)"),
    "nn.GRUCell": ("m = T.nn.GRUCell(4, 4); x = r(2, 4)", "m(x)"),
    "nn.TransformerEncoderLayer": (
        "m = T.nn.TransformerEncoderLayer(8, 2, 16); x = r(4, 1, 8)",
        "m(x)",
    ),
    "nn.CrossEntropyLoss": (
        "m = T.nn.CrossEntropyLoss(); x = r(4, 8); y = T.tensor([1, 2, 3, 4])",
        "m(x, y)",
    ),
    "nn.Linear construct": ("", "T.nn.Linear(8, 8)"),
    "parameters()": (
        "m = T.nn.Sequential(*[T.nn.Linear(2, 2) for _ in range(8)])",
        "list(m.parameters())",
    ),
    "zero_grad": (
        "m = T.nn.Sequential(*[T.nn.Linear(2, 2) for _ in range(8)])\n"
        "o = T.optim.SGD(m.parameters(), lr=0.1)",
        "o.zero_grad()",
    ),
    "train()": ("m = T.nn.Sequential(*[T.nn.Linear(2, 2) for _ in range(8)])", "m.train()"),
    "state_dict()": (
        "m = T.nn.Sequential(*[T.nn.Linear(2, 2) for _ in range(8)])",
        "m.state_dict()",
    ),
    "clip_grad_norm_": (
        "m = T.nn.Sequential(*[T.nn.Linear(2, 2) for _ in range(4)])\n"
        "for p in m.parameters(): p.grad = T.ones_like(p)",
        "T.nn.utils.clip_grad_norm_(m.parameters(), 1.0)",
    ),
    "DataLoader of 16": (
        "d = T.utils.data.TensorDataset(r(16, 4), r(16))\n"
        "l = T.utils.data.DataLoader(d, batch_size=4)",
        "for batch in l: pass",
    ),
}

#: programs with a loss that is differentiated: name -> (preparation, an expression of the loss)
LOSSES = {
    "x.sum()": ("x = g(4, 8)", "x.sum()"),
    "(x * y).sum()": ("x = g(4, 8); y = g(4, 8)", "(x * y).sum()"),
    "(x @ y).sum()": ("x = g(4, 8); y = g(8, 4)", "(x @ y).sum()"),
    "relu": ("x = g(4, 8)", "F.relu(x).sum()"),
    "softmax": ("x = g(4, 8); y = r(4, 8)", "(F.softmax(x, -1) * y).sum()"),
    "log_softmax": ("x = g(4, 8); y = r(4, 8)", "(F.log_softmax(x, -1) * y).sum()"),
    "layer_norm": ("x = g(4, 8); w = g(8); b = g(8)", "F.layer_norm(x, (8,), w, b).sum()"),
    "group_norm": ("x = g(2, 4, 4); w = g(4); b = g(4)", "F.group_norm(x, 2, w, b).sum()"),
    "batch_norm": (
        "x = g(4, 8); w = g(8); b = g(8); m = r(8); v = r(8).abs()",
        "F.batch_norm(x, m, v, w, b, True).sum()",
    ),
    "cross_entropy": ("x = g(4, 8); y = T.tensor([1, 2, 3, 4])", "F.cross_entropy(x, y)"),
    "mse_loss": ("x = g(4, 8); y = r(4, 8)", "F.mse_loss(x, y)"),
    "bce_with_logits": (
        "x = g(4, 8); y = (x > 0).float()",
        "F.binary_cross_entropy_with_logits(x, y)",
    ),
    "cat": ("x = g(4, 8); y = g(4, 8)", "T.cat([x, y]).sum()"),
    "stack": ("x = g(4, 8); y = g(4, 8)", "T.stack([x, y]).sum()"),
    "index [0]": ("x = g(4, 8)", "x[0].sum()"),
    "index [:, 1:3]": ("x = g(4, 8)", "x[:, 1:3].sum()"),
    "index [i]": ("x = g(4, 8); i = T.tensor([0, 1])", "x[i].sum()"),
    "gather": ("x = g(4, 8); i = T.zeros(4, 1, dtype=T.int64)", "x.gather(1, i).sum()"),
    "embedding": ("w = g(8, 4); i = T.tensor([[1, 2]])", "F.embedding(i, w).sum()"),
    "transpose": ("x = g(4, 8)", "x.t().sum()"),
    "view": ("x = g(4, 8)", "x.view(8, 4).sum()"),
    "permute reshape": ("x = g(2, 4, 8)", "x.permute(0, 2, 1).reshape(2, -1).sum()"),
    "expand": ("x = g(1, 8)", "x.expand(4, 8).sum()"),
    "mean(-1)": ("x = g(4, 8)", "x.mean(-1).sum()"),
    "max(1)": ("x = g(4, 8)", "x.max(1)[0].sum()"),
    "max()": ("x = g(4, 8)", "x.max()"),
    "norm": ("x = g(4, 8)", "x.norm()"),
    "var": ("x = g(4, 8)", "x.var()"),
    "where": ("x = g(4, 8); y = g(4, 8)", "T.where(x > 0, x, y).sum()"),
    "masked_fill": ("x = g(4, 8); m = r(4, 8) > 0", "x.masked_fill(m, 0.0).sum()"),
    "clamp": ("x = g(4, 8)", "x.clamp(min=0.0).sum()"),
    "broadcast": ("x = g(4, 8); y = g(8)", "(x + y).sum()"),
    "dropout": ("x = g(4, 8)", "F.dropout(x, 0.1).sum()"),
    "to(float64)": ("x = g(4, 8)", "x.to(T.float64).sum()"),
    "bmm": ("x = g(2, 4, 8); y = g(2, 8, 4)", "(x @ y).sum()"),
    "cumsum": ("x = g(4, 8)", "x.cumsum(-1).sum()"),
    "pad": ("x = g(4, 8)", "F.pad(x, (1, 1)).sum()"),
    "conv1d": ("x = g(1, 2, 8); w = g(2, 2, 3)", "F.conv1d(x, w, padding=1).sum()"),
    "conv2d": ("x = g(1, 2, 4, 4); w = g(2, 2, 3, 3); b = g(2)", "F.conv2d(x, w, b).sum()"),
    "max_pool2d": ("x = g(1, 2, 4, 4)", "F.max_pool2d(x, 2).sum()"),
    "avg_pool2d": ("x = g(1, 2, 4, 4)", "F.avg_pool2d(x, 2).sum()"),
    "attention": ("q = g(1, 2, 4, 8)", "F.scaled_dot_product_attention(q, q, q).sum()"),
    "mlp": (
        "m = T.nn.Sequential(T.nn.Linear(8, 8), T.nn.ReLU(), T.nn.Linear(8, 1)); x = r(4, 8)",
        "m(x).mean()",
    ),
    "lstm": ("m = T.nn.LSTM(4, 4); x = r(3, 2, 4)", "m(x)[0].sum()"),
}

OPTIMIZERS = ("SGD(p, lr=0.1)", "SGD(p, lr=0.1, momentum=0.9)", "Adam(p)", "AdamW(p)", "RMSprop(p)")


def programs() -> Iterator[tuple[str, tuple[str, str]]]:
    """Every written program: name, and (preparation, statement)."""
    yield from PROGRAMS.items()
    for name, (before, loss) in LOSSES.items():
        yield "backward " + name, (before, f"({loss}).backward()")
    for text in OPTIMIZERS:
        before = "p = [T.nn.Parameter(r(4, 4)) for _ in range(4)]\nfor q in p: q.grad = r(4, 4)\n"
        yield "step " + text, (before + f"o = T.optim.{text}", "o.step()")


# ------------------------------------------------------------------ workloads out of the table


def used_operators(ranking: Path | None, count: int) -> dict[str, Any]:
    """Operators by public name: the first `count` of the ranking, or all where there is none."""
    import facula  # noqa: F401
    from facula.core import InplaceOp, Op
    from facula.ops.table.registry import PLACES

    every = {
        f"{module}.{name}".lstrip("."): operator
        for module, names in PLACES.items()
        for name, operator in names.items()
        if isinstance(operator, (Op, InplaceOp))
    }
    if ranking is None:
        return every
    names = re.findall(r"\| torch\.([\w.]+) \|", ranking.read_text())
    return {name: every[name] for name in [n for n in names if n in every][:count]}


def packed(value: Any) -> Any:
    """An argument without facula's types."""
    from facula import core

    if isinstance(value, core.Tensor):
        return ("tensor", value.detach().numpy())
    if isinstance(value, core.dtype):
        return ("named", value.name)
    if isinstance(value, (list, tuple)):
        return ("items", type(value) is tuple, [packed(v) for v in value])
    return ("plain", value)


def unpacked(value: Any, T: Any) -> Any:
    """The argument again, with the types of a framework."""
    kind = value[0]
    if kind == "tensor":
        return T.from_numpy(value[1].copy())
    if kind == "named":
        return getattr(T, value[1])
    if kind == "items":
        items = [unpacked(v, T) for v in value[2]]
        return tuple(items) if value[1] else items
    return value[1]


def sample_calls(ranking: Path | None, count: int) -> Iterator[tuple[str, Any]]:
    """(name, (args, kwargs)) of the first sample of each used operator that has samples."""
    from facula.testing.samples import Samples, pointwise_samples

    for name, operator in used_operators(ranking, count).items():
        definition = operator.definition
        try:
            if definition.kind == "pointwise":
                args, kwargs = next(iter(pointwise_samples(definition, Samples())))[:2]
            elif definition.samples is not None:
                args, kwargs = next(iter(definition.samples(Samples())))[:2]
            else:
                continue
            yield name, (packed(args), {key: packed(v) for key, v in kwargs.items()})
        except (TypeError, StopIteration, RuntimeError):
            continue


# ------------------------------------------------------------------ one interpreter


def call_of(T: Any, name: str, arguments: Any) -> Callable[[int], None]:
    """A loop over one operator's call."""
    function = T
    for part in name.split("."):
        function = getattr(function, part)
    args = unpacked(arguments[0], T)
    kwargs = {key: unpacked(v, T) for key, v in arguments[1].items()}

    def loop(count: int) -> None:
        for _ in range(count):
            function(*args, **kwargs)

    return loop


def program_of(T: Any, before: str, statement: str) -> Callable[[int], None]:
    """A loop over one statement."""

    def random(*shape: int) -> Any:
        return T.randn(*shape)

    space: dict[str, Any] = {
        "T": T,
        "F": T.nn.functional,
        "r": random,
        "g": lambda *shape: T.randn(*shape).requires_grad_(),
    }
    exec(before, space)
    names = [k for k in space if k != "__builtins__"]
    lines = f"def loop(_count, {', '.join(names)}):\n for _ in range(_count):\n  {statement}\n"
    exec(lines, space)
    loop, values = space["loop"], [space[k] for k in names]
    return lambda count: loop(count, *values)


def serve(module: str, work: Path) -> None:
    """Measure what the parent asks for, by number; one line of microseconds or an error each."""
    import importlib
    import warnings

    warnings.simplefilter("ignore")
    T = importlib.import_module(module)
    importlib.import_module(module + ".utils.data")
    T.set_num_threads(1)
    T.manual_seed(0)
    entries, loops = pickle.loads(work.read_bytes()), {}
    for line in sys.stdin:
        number = int(line)
        try:
            if number not in loops:
                kind, name, what = entries[number]
                loop = program_of(T, *what) if kind == "program" else call_of(T, name, what)
                loops[number] = (loop, calibrated(loop))
            loop, count = loops[number]
            print(json.dumps(least_time(loop, count)), flush=True)
        except Exception as error:  # a form that one of the two does not have
            print(json.dumps(f"{type(error).__name__}: {str(error).splitlines()[0]}"), flush=True)


def calibrated(loop: Callable[[int], None]) -> int:
    """How many calls take about two milliseconds."""
    loop(3)
    begin = time.perf_counter()
    loop(20)
    return max(5, int(20 * 0.002 / (time.perf_counter() - begin)))


def least_time(loop: Callable[[int], None], count: int) -> float:
    """Microseconds of a call."""
    least = math.inf
    for _ in range(5):
        begin = time.thread_time()
        loop(count)
        least = min(least, time.thread_time() - begin)
    return least / count * 1e6


# ------------------------------------------------------------------ the comparison


class Child:
    """An interpreter that measures on demand."""

    def __init__(self, python: str, module: str, work: Path) -> None:
        command = [python, __file__, "--serve", module, "--work", str(work)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def measure(self, number: int) -> float | str:
        """Microseconds, or why there are none."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else "the interpreter ended"


def compare(entries: list[Any], children: dict[str, Child], rounds: int) -> list[Any]:
    """Rows (ratio, name, {framework: microseconds or an error})."""
    rows = []
    for number, (_, name, _) in enumerate(entries):
        found: dict[str, Any] = {}
        for _ in range(rounds):
            for key, child in children.items():
                value = child.measure(number)
                known = found.get(key, math.inf)
                found[key] = value if isinstance(value, str) else min(known, value)
        ratio = math.nan
        if all(not isinstance(v, str) for v in found.values()) and len(found) == 2:
            ratio = found["torch"] / found["facula"]
        rows.append((ratio, name, found))
    return rows


def report(rows: list[Any]) -> None:
    """The table, the slowest first, and how many are below 1x and 2x."""
    shown = sorted(rows, key=lambda row: -1.0 if math.isnan(row[0]) else row[0])
    for ratio, name, found in shown:
        text = "  ".join(
            f"{key} {value:8.2f}" if not isinstance(value, str) else f"{key} {value[:70]}"
            for key, value in found.items()
        )
        print(f"{ratio:6.2f}x  {name:<36} {text}")
    ratios = [row[0] for row in rows if not math.isnan(row[0])]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        below = [sum(r < bound for r in ratios) for bound in (1.0, 2.0)]
        print(
            f"{len(ratios)} compared: geometric mean {mean:.2f}x, below 1x {below[0]}, "
            f"below 2x {below[1]}"
        )


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", help="a Python interpreter that has PyTorch")
    parser.add_argument("--ranking", type=Path, help="Markdown table of most used names")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--only", default="", help="regular expression of names")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--serve")
    parser.add_argument("--work", type=Path)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.work)
        return
    entries = [("program", name, what) for name, what in programs()]
    entries += [("call", *found) for found in sample_calls(arguments.ranking, arguments.count)]
    entries = [entry for entry in entries if re.search(arguments.only, entry[1])]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work.pickle"
        work.write_bytes(pickle.dumps(entries))
        children = {"facula": Child(sys.executable, "facula", work)}
        if arguments.torch:
            children["torch"] = Child(arguments.torch, "torch", work)
        report(compare(entries, children, arguments.rounds))


if __name__ == "__main__":
    main()
