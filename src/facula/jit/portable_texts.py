"""Functions that PyTorch's operators do not have, written in the language of PyTorch's files.

Takes nothing. Gives `TEXTS`: by name, the arguments, the type of the result and the body.
Keeps true: a body calls operators that PyTorch has, by their names in files, and other functions of the table as
`$name(`; each gives the numbers of the library's own function.
"""

from __future__ import annotations

__all__ = ["TEXTS"]

_EMPTY = "annotate(List[int], [])"

#: name -> arguments, type of the result, body
TEXTS: dict[str, tuple[str, str, str]] = {
    **{f"dropout{space}d": ("input: Tensor, p: float, training: bool, inplace: bool", "Tensor", f"""
alone = torch.eq(torch.dim(input), {space + 1})
if alone:
  x = torch.unsqueeze(input, 0)
else:
  x = input
if inplace:
  dropped = torch.feature_dropout_(x, p, training)
else:
  dropped = torch.feature_dropout(x, p, training)
if alone:
  made = torch.squeeze(dropped, 0)
else:
  made = dropped
return made""") for space in (1, 3)},
    "reduction_code": ("reduction: str", "int", """
if reduction == "none":
  code = 0
else:
  if reduction == "mean":
    code = 1
  else:
    code = 2
return code"""),
    "reduced": ("loss: Tensor, reduction: str", "Tensor", """
if reduction == "mean":
  made = torch.mean(loss)
else:
  if reduction == "sum":
    made = torch.sum(loss)
  else:
    made = loss
return made"""),
    # the cells and gates of all steps, which gradients read alone, are empty: PyTorch's operator keeps its own
    "lstm_layer": (
        "input: Tensor, h0: Tensor, c0: Tensor, w_input: Tensor, w_hidden: Tensor, bias: Optional[Tensor], "
        "reverse: bool",
        "Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]", """
if reverse:
  steps = torch.flip(input, [0])
else:
  steps = input
state = [torch.unsqueeze(h0, 0), torch.unsqueeze(c0, 0)]
if torch.__isnot__(bias, None):
  known = unchecked_cast(Tensor, bias)
  weights = [w_input, w_hidden, known, torch.zeros_like(known)]
  made = torch.lstm(steps, state, weights, True, 1, 0., False, False, False)
else:
  made = torch.lstm(steps, state, [w_input, w_hidden], False, 1, 0., False, False, False)
out, h, c, = made
if reverse:
  turned = torch.flip(out, [0])
else:
  turned = out
none = torch.slice(h0, 0, 0, 0)
return (turned, torch.squeeze(h, 0), torch.squeeze(c, 0), none, none)"""),
    "tanhshrink": ("input: Tensor", "Tensor", "return torch.sub(input, torch.tanh(input))"),
    "softsign": ("input: Tensor", "Tensor", "return torch.div(input, torch.add(torch.abs(input), 1))"),
    "gumbel_softmax": ("logits: Tensor, tau: float, hard: bool, dim: int", "Tensor", """
drawn = torch.neg(torch.log(torch.exponential_(torch.empty_like(logits))))
soft = torch.softmax(torch.div(torch.add(logits, drawn), tau), dim)
if hard:
  at = torch.argmax(soft, dim, True)
  ones = torch.scatter(torch.zeros_like(logits), dim, at, 1.)
  made = torch.add(torch.sub(ones, torch.detach(soft)), soft)
else:
  made = soft
return made"""),
    "normalize": ("input: Tensor, p: float, dim: int, eps: float", "Tensor", """
length = torch.clamp_min(torch.norm(input, p, [dim], True), eps)
return torch.div(input, torch.expand_as(length, input))"""),
    "local_response_norm": ("input: Tensor, size: int, alpha: float, beta: float, k: float", "Tensor", """
squares = torch.unsqueeze(torch.mul(input, input), 1)
left = torch.floordiv(size, 2)
right = torch.floordiv(torch.sub(size, 1), 2)
if torch.eq(torch.dim(input), 3):
  wide = torch.constant_pad_nd(squares, [0, 0, left, right])
  means = torch.squeeze(torch.avg_pool2d(wide, [size, 1], [1, 1]), 1)
else:
  sizes = torch.size(input)
  flat = torch.view(squares, [sizes[0], 1, sizes[1], sizes[2], -1])
  wide0 = torch.constant_pad_nd(flat, [0, 0, 0, 0, left, right])
  means = torch.view(torch.squeeze(torch.avg_pool3d(wide0, [size, 1, 1], [1, 1, 1]), 1), sizes)
return torch.div(input, torch.pow(torch.add(torch.mul(means, alpha), k), beta))"""),
    "kl_div": ("input: Tensor, target: Tensor, reduction: str, log_target: bool", "Tensor", """
if reduction == "batchmean":
  made = torch.div(torch.kl_div(input, target, 2, log_target=log_target), torch.size(input, 0))
else:
  made = torch.kl_div(input, target, $reduction_code(reduction), log_target=log_target)
return made"""),
    "multilabel_soft_margin_loss": (
        "input: Tensor, target: Tensor, weight: Optional[Tensor], reduction: str", "Tensor", """
there = torch.mul(target, torch.log_sigmoid(input))
absent = torch.mul(torch.rsub(target, 1), torch.log_sigmoid(torch.neg(input)))
loss = torch.neg(torch.add(there, absent))
if torch.__isnot__(weight, None):
  scaled = torch.mul(loss, unchecked_cast(Tensor, weight))
else:
  scaled = loss
return $reduced(torch.mean(scaled, [-1]), reduction)"""),
    "gaussian_nll_loss": (
        "input: Tensor, target: Tensor, var: Tensor, full: bool, eps: float, reduction: str", "Tensor", """
if torch.eq(torch.add(torch.dim(var), 1), torch.dim(input)):
  spread = torch.unsqueeze(var, -1)
else:
  spread = var
kept = torch.add(spread, torch.detach(torch.sub(torch.clamp_min(spread, eps), spread)))
gap = torch.sub(input, target)
loss = torch.mul(torch.add(torch.log(kept), torch.div(torch.mul(gap, gap), kept)), 0.5)
if full:
  whole = torch.add(loss, 0.91893853320467274)
else:
  whole = loss
return $reduced(whole, reduction)"""),
    "embedding_bag": (
        "input: Tensor, weight: Tensor, offsets: Optional[Tensor], max_norm: Optional[float], norm_type: float, "
        "scale_grad_by_freq: bool, mode: str, sparse: bool, per_sample_weights: Optional[Tensor], "
        "include_last_offset: bool, padding_idx: Optional[int]", "Tensor", """
if torch.__isnot__(offsets, None):
  starts = unchecked_cast(Tensor, offsets)
else:
  starts = torch.arange(0, torch.numel(input), torch.size(input, 1), dtype=input.dtype, device=input.device)
if torch.__isnot__(per_sample_weights, None):
  given = torch.reshape(unchecked_cast(Tensor, per_sample_weights), [-1])
  scales = annotate(Optional[Tensor], given)
else:
  scales = annotate(Optional[Tensor], None)
rows = torch.reshape(input, [-1])
if mode == "sum":
  code = 0
else:
  if mode == "mean":
    code = 1
  else:
    code = 2
if torch.__isnot__(max_norm, None):
  _0 = torch.embedding_renorm_(torch.detach(weight), rows, unchecked_cast(float, max_norm), norm_type)
else:
  pass
made, _1, _2, _3 = torch.embedding_bag(weight, rows, starts, scale_grad_by_freq, code, sparse, scales, """
        """include_last_offset, padding_idx)
return made"""),
    "known_sizes": ("input: Tensor, sizes: List[Optional[int]]", "List[int]", f"""
made = {_EMPTY}
first = torch.sub(torch.dim(input), torch.len(sizes))
for i in range(torch.len(sizes)):
  each = sizes[i]
  if torch.__isnot__(each, None):
    size = unchecked_cast(int, each)
  else:
    size = torch.size(input, torch.add(first, i))
  _0 = torch.append(made, size)
return made"""),
    "lp_pool1d": (
        "input: Tensor, p: float, kernel: List[int], stride: List[int], ceil_mode: bool", "Tensor", """
means = torch.avg_pool1d(torch.pow(input, p), kernel, stride, [0], ceil_mode)
sums = torch.mul(torch.mul(torch.sign(means), torch.relu(torch.abs(means))), kernel[0])
return torch.pow(sums, torch.div(1., p))"""),
    "lp_pool2d": (
        "input: Tensor, p: float, kernel: List[int], stride: List[int], ceil_mode: bool", "Tensor", """
means = torch.avg_pool2d(torch.pow(input, p), kernel, stride, [0, 0], ceil_mode)
count = torch.mul(kernel[0], kernel[1])
sums = torch.mul(torch.mul(torch.sign(means), torch.relu(torch.abs(means))), count)
return torch.pow(sums, torch.div(1., p))"""),
    "lp_pool3d": (
        "input: Tensor, p: float, kernel: List[int], stride: List[int], ceil_mode: bool", "Tensor", """
means = torch.avg_pool3d(torch.pow(input, p), kernel, stride, [0, 0, 0], ceil_mode)
count = torch.mul(torch.mul(kernel[0], kernel[1]), kernel[2])
sums = torch.mul(torch.mul(torch.sign(means), torch.relu(torch.abs(means))), count)
return torch.pow(sums, torch.div(1., p))"""),
    "unpooled_sizes": (
        "input: Tensor, kernel: List[int], stride: List[int], padding: List[int], given: Optional[List[int]]",
        "List[int]", f"""
made = {_EMPTY}
count = torch.len(kernel)
first = torch.sub(torch.dim(input), count)
if torch.__isnot__(given, None):
  asked = unchecked_cast(List[int], given)
  for i in range(count):
    _0 = torch.append(made, asked[torch.add(torch.sub(torch.len(asked), count), i)])
else:
  for j in range(count):
    if torch.eq(torch.len(stride), 0):
      step = kernel[j]
    else:
      step = stride[j]
    whole = torch.mul(torch.sub(torch.size(input, torch.add(first, j)), 1), step)
    size = torch.add(torch.sub(whole, torch.mul(2, padding[j])), kernel[j])
    _1 = torch.append(made, size)
return made"""),
    "grid_sample": (
        "input: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool", "Tensor", """
if mode == "bilinear":
  how = 0
else:
  if mode == "nearest":
    how = 1
  else:
    how = 2
if padding_mode == "zeros":
  outside = 0
else:
  if padding_mode == "border":
    outside = 1
  else:
    outside = 2
return torch.grid_sampler(input, grid, how, outside, align_corners)"""),
    "unique_inverse": ("input: Tensor, sorted: bool", "Tuple[Tensor, Tensor]", """
values, inverse, _0 = torch._unique2(input, sorted, True, False)
return (values, inverse)"""),
    "unique_counts": ("input: Tensor, sorted: bool", "Tuple[Tensor, Tensor]", """
values, _0, counts = torch._unique2(input, sorted, False, True)
return (values, counts)"""),
    "unique_dim_counts": ("input: Tensor, sorted: bool, dim: int", "Tuple[Tensor, Tensor]", """
values, _0, counts = torch.unique_dim(input, dim, sorted, False, True)
return (values, counts)"""),
    "unique_dim_inverse": ("input: Tensor, sorted: bool, dim: int", "Tuple[Tensor, Tensor]", """
values, inverse, _0 = torch.unique_dim(input, dim, sorted, True, False)
return (values, inverse)"""),
    "consecutive_inverse": ("input: Tensor, dim: Optional[int]", "Tuple[Tensor, Tensor]", """
values, inverse, _0 = torch.unique_consecutive(input, True, False, dim)
return (values, inverse)"""),
    "consecutive_counts": ("input: Tensor, dim: Optional[int]", "Tuple[Tensor, Tensor]", """
values, _0, counts = torch.unique_consecutive(input, False, True, dim)
return (values, counts)"""),
    "lu": ("A: Tensor, pivot: bool", "Tuple[Tensor, Tensor]", """
factors, pivots, _0 = torch._lu_with_info(A, pivot, True)
return (factors, pivots)"""),
    "tensordot": ("a: Tensor, b: Tensor, dims: int", "Tensor", f"""
left = {_EMPTY}
right = {_EMPTY}
for i in range(dims):
  _0 = torch.append(left, torch.add(torch.sub(torch.dim(a), dims), i))
  _1 = torch.append(right, i)
return torch.tensordot(a, b, left, right)"""),
    "wide_sizes": ("input: Tensor, sizes: List[int]", "List[int]", """
if torch.eq(torch.len(sizes), 1):
  made = torch.mul(sizes, torch.sub(torch.dim(input), 2))
else:
  made = sizes
return made"""),
    "scaled_sizes": ("input: Tensor, factors: List[float]", "List[int]", f"""
made = {_EMPTY}
for i in range(torch.sub(torch.dim(input), 2)):
  if torch.eq(torch.len(factors), 1):
    factor = factors[0]
  else:
    factor = factors[i]
  size = torch.mul(torch.Float(torch.size(input, torch.add(i, 2))), factor)
  _0 = torch.append(made, int(torch.floor(size)))
return made"""),
    "interpolate": (
        "input: Tensor, size: Optional[List[int]], factors: Optional[List[float]], mode: str, "
        "align_corners: bool, recompute: bool, antialias: bool", "Tensor", f"""
sizes = {_EMPTY}
scales = annotate(Optional[List[float]], None)
count = torch.sub(torch.dim(input), 2)
if torch.__isnot__(size, None):
  sizes = $wide_sizes(input, unchecked_cast(List[int], size))
else:
  given = unchecked_cast(List[float], factors)
  sizes = $scaled_sizes(input, given)
  if recompute:
    pass
  else:
    if torch.eq(torch.len(given), 1):
      scales = annotate(Optional[List[float]], torch.mul(given, count))
    else:
      scales = annotate(Optional[List[float]], given)
if torch.__isnot__(scales, None):
  asked = annotate(Optional[List[int]], None)
else:
  asked = annotate(Optional[List[int]], sizes)
made = input
if mode == "area":
  if torch.eq(count, 1):
    made = torch.adaptive_avg_pool1d(input, sizes)
  else:
    if torch.eq(count, 2):
      made = torch.adaptive_avg_pool2d(input, sizes)
    else:
      made = torch.adaptive_avg_pool3d(input, sizes)
else:
  if mode == "nearest":
    if torch.eq(count, 1):
      made = torch.upsample_nearest1d(input, asked, scales)
    else:
      if torch.eq(count, 2):
        made = torch.upsample_nearest2d(input, asked, scales)
      else:
        made = torch.upsample_nearest3d(input, asked, scales)
  else:
    if mode == "nearest-exact":
      if torch.eq(count, 1):
        made = torch._upsample_nearest_exact1d(input, asked, scales)
      else:
        if torch.eq(count, 2):
          made = torch._upsample_nearest_exact2d(input, asked, scales)
        else:
          made = torch._upsample_nearest_exact3d(input, asked, scales)
    else:
      if mode == "linear":
        made = torch.upsample_linear1d(input, asked, align_corners, scales)
      else:
        if mode == "trilinear":
          made = torch.upsample_trilinear3d(input, asked, align_corners, scales)
        else:
          if mode == "bilinear":
            if antialias:
              made = torch._upsample_bilinear2d_aa(input, asked, align_corners, scales)
            else:
              made = torch.upsample_bilinear2d(input, asked, align_corners, scales)
          else:
            if antialias:
              made = torch._upsample_bicubic2d_aa(input, asked, align_corners, scales)
            else:
              made = torch.upsample_bicubic2d(input, asked, align_corners, scales)
return made"""),
}  # fmt: skip
