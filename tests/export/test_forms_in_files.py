"""Calls in files stand under PyTorch's names, with its arguments, whatever they are called here, and are read back."""

import io
import json
import zipfile

import numpy as np
import pytest

import facula
from facula import export, nn
from facula.export.pt2.forms import in_forms_of_files
from facula.nn import functional as F

facula.manual_seed(0)


class Calls(nn.Module):
    """A module that calls a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def written(module, args, decomposed=False, **options):
    """The program of a module and the bytes of its file."""
    program = export.export(module, args, **options)
    program = program.run_decompositions() if decomposed else program
    stream = io.BytesIO()
    export.save(program, stream)
    return program, stream


def nodes_of(stream):
    """The records of the calls in a file, by the name of what they call."""
    with zipfile.ZipFile(stream) as archive:
        record = json.loads(archive.read("archive/models/model.json"))
    nodes = record["graph_module"]["graph"]["nodes"]
    return {n["target"].removeprefix("torch.ops.aten."): n for n in nodes}


def names(node):
    return [given["name"] for given in node["inputs"]]


def leaves(x):
    return [t for t in (x if isinstance(x, (list, tuple)) else [x])]


IMAGE = facula.randn(2, 4, 6, 6)
ROWS = facula.randn(3, 4)
CLASSES = facula.tensor([0, 3, 1])
#: what is called, with what, whether decomposed -> the call in the file, and its arguments
CALLS = {
    "means": (
        lambda x: F.adaptive_avg_pool2d(x, 3), (IMAGE,), False, "adaptive_avg_pool2d.default",
        "self output_size",
    ),
    "maxima": (
        lambda x: F.adaptive_max_pool2d(x, 2), (IMAGE,), False,
        "adaptive_max_pool2d.default", "self output_size",
    ),
    "places": (
        lambda x: F.max_pool2d(x, 2, return_indices=True), (IMAGE,), False,
        "max_pool2d_with_indices.default", "self kernel_size stride padding dilation ceil_mode",
    ),
    "same": (
        lambda x, w: F.conv2d(x, w, padding="same"), (IMAGE, facula.randn(2, 4, 3, 3)), False, "conv2d.padding",
        "input weight padding",
    ),
    "larger": (
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (IMAGE,), False, "upsample_bilinear2d.default",
        "self output_size align_corners scales_h scales_w",
    ),
    "cubic": (
        lambda x: F.interpolate(x, (3, 3), mode="bicubic", antialias=True), (IMAGE,), False,
        "_upsample_bicubic2d_aa.default", "self output_size align_corners",
    ),
    "exact": (
        lambda x: F.interpolate(x, (4, 3), mode="nearest-exact"), (IMAGE,), False,
        "_upsample_nearest_exact2d.default", "self output_size",
    ),
    "classes": (F.cross_entropy, (ROWS, CLASSES), False, "cross_entropy_loss.default", "self target"),
    "rows": (
        lambda x, t: F.nll_loss(x, t, reduction="sum"), (ROWS, CLASSES), False, "nll_loss_nd.default",
        "self target reduction",
    ),
    "squares": (
        lambda x, y: F.mse_loss(x, y, reduction="none"), (ROWS, -ROWS), False,
        "mse_loss.default", "self target reduction",
    ),
    "counts": (
        F.poisson_nll_loss, (ROWS, ROWS.abs()), False, "poisson_nll_loss.default",
        "input target log_input full eps reduction",
    ),
    "bags": (
        lambda w, i: F.embedding_bag(i, w, mode="sum"), (ROWS, facula.tensor([[1, 2], [0, 0]])), False,
        "embedding_bag.default", "weight indices offsets scale_grad_by_freq mode",
    ),
    "each": (
        lambda x: F.instance_norm(x), (IMAGE,), False, "instance_norm.default",
        "input use_input_stats momentum eps cudnn_enabled",
    ),
    "nuclear": (lambda x: facula.norm(x, p="nuc"), (ROWS,), True, "linalg_svdvals.default", "A"),
    "convolved": (
        nn.Conv2d(4, 2, 3), (IMAGE,), True, "convolution.default",
        "input weight bias stride padding dilation transposed output_padding groups",
    ),
    "transposed": (
        nn.ConvTranspose2d(4, 2, 3, 2, output_padding=1), (IMAGE,), True, "convolution.default",
        "input weight bias stride padding dilation transposed output_padding groups",
    ),
    "steps": (
        nn.LSTM(4, 5, bidirectional=True), (facula.randn(3, 2, 4),), False, "lstm.input",
        "input hx params has_biases num_layers dropout train bidirectional batch_first",
    ),
    "matched": (
        lambda q: F.scaled_dot_product_attention(q, q, q), (facula.randn(2, 2, 3, 4),), True,
        "_scaled_dot_product_flash_attention_for_cpu.default", "query key value",
    ),
    "solved": (
        lambda a, b: facula.cholesky_solve(b, a), (facula.eye(3) + 1, facula.ones(3, 2)), False,
        "cholesky_solve.default", "self input2",
    ),
    "moved": (
        lambda x: facula.tensordot(x, x, 2), (ROWS,), False,
        "tensordot.default", "self other dims_self dims_other",
    ),
    "bounded": (lambda x: x.clamp(min=-x), (ROWS,), False, "clamp.Tensor", "self min"),
    "bits": (lambda x: x.view(facula.int32), (ROWS,), False, "view.dtype", "self dtype"),
    "among": (lambda x: facula.isin(x, 2.0), (ROWS,), False, "isin.Tensor_Scalar", "elements test_element"),
    "split": (lambda x: facula.hsplit(x, 2), (ROWS,), False, "hsplit.int", "self sections"),
    "shifted": (lambda x: x.long() << 2, (ROWS,), False, "bitwise_left_shift.Tensor_Scalar", "self other"),
    "rests": (lambda x: x % 2, (ROWS,), False, "remainder.Scalar", "self other"),
    "either": (lambda x: facula.where(x > 0, 1, 0), (ROWS,), False, "where.Scalar", "condition self other"),
    "spread": (lambda x: x.std(1), (ROWS,), False, "std.dim", "self dim"),
    "copied": (lambda x: x.clone().copy_(x), (ROWS,), False, "copy_.default", "self src"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_stand_under_pytorchs_names_and_are_read_back_as_they_were(name):
    function, args, decomposed, target, arguments = CALLS[name]
    module = function if isinstance(function, nn.Module) else Calls(function)
    program, stream = written(module, args, decomposed)
    nodes = nodes_of(stream)
    assert target in nodes, list(nodes)
    wanted = arguments.split()
    assert [name for name in names(nodes[target]) if name in wanted] == wanted
    stream.seek(0)
    back = export.load(stream).module()(*args)
    for a, b in zip(leaves(module(*args)), leaves(back), strict=True):
        for x, y in zip(leaves(a), leaves(b), strict=True):
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=2e-5, atol=1e-6)


def test_reductions_are_numbers_there():
    _, stream = written(Calls(lambda x, y: F.l1_loss(x, y, reduction="sum")), (ROWS, -ROWS))
    assert nodes_of(stream)["l1_loss.default"]["inputs"][2]["arg"] == {"as_int": 2}


def test_a_divergence_over_the_batch_is_a_sum_that_is_divided():
    module = Calls(lambda x, y: F.kl_div(x, y, reduction="batchmean"))
    args = ROWS.log_softmax(1), ROWS.softmax(1)
    _, stream = written(module, args)
    assert nodes_of(stream)["div.Tensor"]["inputs"][1]["arg"] == {"as_int": 3}
    # by hand: the target is the input's exponential
    assert abs(float(export.load(stream).module()(*args))) < 1e-6


def test_sizes_stay_symbols_in_other_forms():
    n = export.Dim("n", min=2, max=32)
    module = nn.Sequential(nn.Conv2d(4, 2, 3), nn.Upsample(scale_factor=2), nn.MaxPool2d(2))
    _, stream = written(module.eval(), (IMAGE,), True, dynamic_shapes=({0: n},))
    back = export.load(stream).module()
    other = facula.randn(5, 4, 6, 6)
    np.testing.assert_allclose(
        back(other).detach().numpy(), module(other).detach().numpy(), rtol=1e-5, atol=1e-6
    )


def test_the_program_itself_stays_as_it_is():
    program = export.export(Calls(lambda x: F.adaptive_max_pool2d(x, 2)), (IMAGE,))
    before = str(program.graph)
    assert in_forms_of_files(program.graph_module) is not program.graph_module
    assert str(program.graph) == before


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_the_last_offset_of_decomposed_bags_is_an_end(mode):
    module = Calls(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode))
    args = ROWS, facula.tensor([1, 2, 0, 0]), facula.tensor([0, 3])
    _, stream = written(module, args, True)
    (node,) = [n for name, n in nodes_of(stream).items() if name.startswith("embedding_bag")]
    found = {g["name"]: g["arg"] for g in node["inputs"]}
    assert found["include_last_offset"] == {"as_bool": True}
    back = export.load(stream).module()(*args)
    by_hand = [getattr(ROWS.numpy()[rows], mode)(0) for rows in ([1, 2, 0], [0])]
    np.testing.assert_allclose(back.numpy(), np.stack(by_hand), rtol=1e-6)


def test_decomposed_losses_of_paths_name_the_targets_as_they_were():
    module = Calls(lambda x, t, n, m: F.ctc_loss(x, t, n, m, reduction="none"))
    lengths = facula.tensor([6, 5]), facula.tensor([2, 1])
    targets = facula.tensor([[1, 2], [3, 1]])
    args = facula.randn(6, 2, 4).log_softmax(2), targets, *lengths
    _, stream = written(module, args, True)
    node = nodes_of(stream)["ctc_loss.Tensor"]
    assert names(node)[:4] == ["log_probs", "targets", "input_lengths", "target_lengths"]
    with zipfile.ZipFile(stream) as archive:
        record = json.loads(archive.read("archive/models/model.json"))
    given = node["inputs"][1]["arg"]["as_tensor"]["name"]
    sizes = record["graph_module"]["graph"]["tensor_values"][given]["sizes"]
    assert sizes == [{"as_int": 2}, {"as_int": 2}]
    stream.seek(0)
    found = export.load(stream).module()(*args)
    np.testing.assert_allclose(found.numpy(), module(*args).numpy(), rtol=1e-5)


def test_the_names_of_further_arguments_are_numbered():
    program, stream = written(Calls(lambda x, y: x + y), (ROWS, ROWS))
    with zipfile.ZipFile(stream) as archive:
        record = json.loads(archive.read("archive/models/model.json"))
    call = record["graph_module"]["module_call_graph"][0]
    assert call["signature"]["forward_arg_names"] == ["args_0", "args_1"]
    stream.seek(0)
    assert facula.equal(export.load(stream).module()(ROWS, ROWS), ROWS + ROWS)


def _changed(stream, change):
    """A file with another record of its program."""
    made = io.BytesIO()
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("models/model.json"):
                record = json.loads(data)
                change(record["graph_module"]["graph"]["nodes"])
                data = json.dumps(record)
            new.writestr(name, data)
    made.seek(0)
    return made


def test_arguments_are_read_by_their_names():
    def swap(nodes):
        (node,) = [n for n in nodes if "huber" in n["target"]]
        node["inputs"] = [node["inputs"][i] for i in (0, 1, 3, 2)]
        node["inputs"][2]["kind"] = node["inputs"][3]["kind"] = 2

    module = Calls(lambda x, y: F.huber_loss(x, y, reduction="sum", delta=0.5))
    _, stream = written(module, (ROWS, -ROWS))
    back = export.load(_changed(stream, swap)).module()
    d = np.abs(2 * ROWS.numpy())
    by_hand = np.where(d < 0.5, d * d / 2, 0.5 * (d - 0.25)).sum()
    np.testing.assert_allclose(float(back(ROWS, -ROWS)), by_hand, rtol=1e-5)


def test_a_reduction_of_another_number_is_refused():
    def change(nodes):
        nodes[0]["inputs"][2]["arg"] = {"as_int": 7}

    _, stream = written(Calls(lambda x, y: F.mse_loss(x, y, reduction="sum")), (ROWS, -ROWS))
    with pytest.raises(RuntimeError, match="a reduction of 0, 1 or 2"):
        export.load(_changed(stream, change))


def test_powers_and_neighbours_end_in_decompositions():
    args = ROWS, ROWS + 1
    program, stream = written(
        Calls(lambda x, y: (facula.nextafter(x, y), facula.polygamma(1, y.abs() + 1))), args, True
    )
    assert {"nextafter.default", "polygamma.default"} <= set(nodes_of(stream))
    np.testing.assert_array_equal(
        program.module()(*args)[0].numpy(), np.nextafter(args[0].numpy(), args[1].numpy())
    )
