"""What arguments mean: the words of PyTorch's conventions, said once for every operator that takes them.

Takes nothing. Gives `words_for`. Keeps true: a name has one meaning in the operators that have it (or one
for each type, as ``reduce: bool`` and ``reduce: str``); an operator where it means something else says so
in a section ``Args:`` of its own docstring, which comes first.
"""

from __future__ import annotations

__all__ = ["words_for"]

#: name, or name:type, or name[] (where several are taken), and its meaning; one a line
_TEXT = """
A: the matrix, or a batch of them in its last two dimensions
B: the right-hand side: a matrix, or a batch of them
C: the number of channels
HxW: the number of positions of one image
L: a triangular Cholesky factor
LD: the compact factors that ``linalg.ldl_factor`` gives
LU: the compact factors that ``linalg.lu_factor`` gives
LU_data: the compact factors that ``lu`` gives
LU_pivots: the row exchanges that ``lu`` gives
M:int: the number of points of the window
M:Tensor: what is subtracted from the matrix first, by broadcasting
N: the number of columns; by default as many as there are rows
UPLO: "L" or "U": the triangle that is read
X: where the iteration begins: one column for each eigenvector
a:Tensor: the left operand
a:any: the coefficients of the sum of cosines
abs: the absolute values
accumulate: whether values are added to what stands there; places that are named twice then count twice
adjoint: whether the system has the conjugate transpose of the matrix
align_corners: whether the first and the last position stand for the centres of the corner elements and not for
    their outer edges
align_to_window: whether the first frame begins with the signal, where it is not centred
alpha: the number that the second operand (or the product) is multiplied by
anchor: the points that the others are compared with
angle: the angles in radians
antialias: whether a result that is smaller is smoothed first
append: what stands behind the last element along `dim`
approximate: "none" for the exact function, or "tanh" for the cheaper form
as_tuple: whether the result is one tensor of indices for each dimension
assume_unique: whether no element occurs twice in either tensor, which is faster
atol: the absolute tolerance
attn_mask: which keys a query sees: bools, or numbers that are added to the scores; it broadcasts to
    ``[..., queries, keys]``
average_attn_weights: whether the weights are the mean over the heads
aweights: a weight for each observation
axis: the dimension
axis0: the first dimension
axis1: the second dimension
b: the right operand
base: the base of the powers
batch1: the left matrices, ``[b, n, m]``
batch2: the right matrices, ``[b, m, p]``
beta: the number that the input is multiplied by, or the sharpness of the function
bias: the number that is added for each output channel
bias_sizes: the shape of the bias, or None
bins: how many bins there are, or the edges between them
blank: the class of "no label"
blocksize: the sizes of a block, rows and columns
boundaries: the ascending edges
ccol_indices: where each column begins among the elements
ceil_mode: whether a last window that does not fit is counted
center:bool: whether the signal (or the matrix) is centred first
center:float: where the window has its largest value
check: what is refused
check_errors: whether a failure is an error, and not only told by `info`
check_invariants: whether the indices are checked
chunks: how many pieces there are at most
col: the number of columns
col_indices: the column of each element
compressed_indices: where each row (or column) begins among the elements
compute_mode: how distances for p = 2 are computed: by matrix products where that is faster, always, or never
compute_uv: whether the singular vectors are computed
condition: bools: true takes the element of the first operand, false that of the second
correction: what is subtracted from the number of elements in the divisor; 1 is Bessel's
count: the number of trials
count_include_pad: whether padding counts as elements of a window
crow_indices: where each row begins among the elements
cudnn_enable: taken for compatibility; it has no effect
cudnn_enabled: taken for compatibility; it has no effect
d: the distance of two samples
data: the values
decimals: the digits behind the point that stay; negative ones count before it
delta: where the quadratic part ends
dense_dim: how many dimensions of an element are dense
density: whether the counts become a density whose integral is 1
descending: whether the largest come first
destination: where the dimensions come to stand
device: the device of the result; by default the current one, or the argument's
diagonal: which diagonal; 0 is the main one, positive ones lie above it
diagonals: the values of the diagonals, a row for each
dilation: the distance of two elements of a window
dim[]: the dimension, or dimensions; negative ones count from the last
dim: the dimension; a negative one counts from the last
dim0: the first dimension
dim1: the first dimension
dim2: the second dimension
dimension: the dimension
dims: the dimensions; negative ones count from the last
distance_function: gives the distance of two batches of points; by default the Euclidean one
divisor_override: what sums are divided by, where it is not the number of elements
downscale_factor: by how much height and width shrink
driver: the method of LAPACK; its choice does not change what the result means
dropout_p: the probability of dropping a weight
dtype: the dtype of the result; by default it follows from the arguments
dx: the distance of two points
edge_order: the order of accuracy at the edges, 1 or 2
elements: the elements that are looked for
embed_dim: the last size of the queries
enable_gqa: whether keys and values may have fewer heads than queries, each for a group of them
end: where the range ends
end_dim: the last dimension that is joined
eps: a small number that keeps a divisor, or a logarithm's argument, away from zero
equal_nan: whether NaN equals NaN
equation: the subscripts of operands and result, as in ``"ij,jk->ik"``
exponent: the exponent
fill: the number for what is left out
fill_value: the number
forward: whether the exponent is negative
from: the least number
full: whether constant terms of the loss are kept
full_matrices: whether the vectors are completed to a square matrix
fweights: how often each observation counts
generator: where random numbers come from; by default the device's generator
get_infos: whether `info` is given
grad_output: the gradient of the result
grid: the positions to sample at, from -1 to 1: ``[n, ..., 2]`` (x, y), or 3 for volumes
group: the number of groups
groups: how many groups of channels are computed apart
half_to_float: whether the result of float16 is float32
hard: whether samples are one-hot, with the gradient of the soft ones
hermitian: whether the matrix is Hermitian (symmetric, where it is real)
high: the first number that is not drawn
hop_length: the distance of two frames; a quarter of `n_fft` by default
iK: a preconditioner
ignore_index: the class that counts neither for the loss nor for its mean
imag: the imaginary parts
implicit: taken for compatibility; it has no effect
include_last_offset: whether the last offset is the number of indices
include_self: whether the elements that stand there count as well
increasing: whether powers rise from left to right
ind: how many of the dimensions belong to the rows
index:Tensor: the positions along `dim`
index:int: the position; negative ones count from the end
indexing: "ij" for matrix order, "xy" for Cartesian order
indices: the positions
indices_or_sections: how many pieces, or where they begin
initial: where the reduction begins
inplace: whether the input is overwritten
input: the input
input1: the first input
input2: the second input
input_dtype: the dtype of the input
input_lengths: how many time steps each sequence has
input_mask: which elements of the input count
interpolation: what lies between two elements: "linear", "lower", "higher", "midpoint" or "nearest"
interpolation_mode: 0 bilinear, 1 nearest, 2 bicubic
invert: whether elements that are not found are asked for
is_causal: whether a query sees no keys behind its own position
is_coalesced: whether no position is named twice
k: how many elements
keepdim: whether the reduced dimensions stay, with size 1
kernel_size: the size of a window; one number counts for every dimension
key: the keys, ``[..., keys, features]``
label_smoothing: the share of a target that is spread evenly over all classes
lambd: the parameter of the function: a threshold, or a rate
largest: whether the largest are asked for, and not the smallest
last_dim_size: the size of the last dimension of the result
layout: the layout of the result; by default strided, or the argument's
left: whether the matrix stands at the left
length: how many elements
lengths: how many elements each segment has
log_input: whether the input is the logarithm of the rate
log_probs: log-probabilities of the classes, ``[time, batch, classes]``
log_target: whether the target holds logarithms
logits: unnormalised log-probabilities
low: the least number that is drawn
lower: the least slope
m: the number of columns; by default that of rows
margin: how far apart the two have to be
mask: bools that say which elements are meant; it broadcasts to the input
mask_type: whether the mask is of queries and keys (0), of keys (1) or of everything (2)
masked_grad: whether gradients keep the places of the elements
mat: the matrix
mat1: the left matrix
mat2: the right matrix
matrices: the matrices, from left to right
max: the largest value
max_norm: rows that are longer are shortened to this length
max_val: the largest value
maxnorm: the largest norm
mean: the mean of the distribution
median: the median of the distribution
memory_format: how the result lies in memory: contiguous, channels last, or as the argument does
method: "basic" or "ortho"
min: the smallest value
min_val: the smallest value
minlength: the least number of bins
mode:str: which method is used
mode:int: 0 sum, 1 mean, 2 max
momentum: the weight of the new statistics in the running ones; None counts all batches alike
n: how many: points, rows, or the order
n_fft: the length of a frame's transform
nan: what stands for NaN
need_weights: whether the weights of attention are a result
negative: the points that are to be far away
negative_slope: the slope below zero
neginf: what stands for negative infinity
niter: how many iterations
norm: which way divides by the size: "backward" (the inverse), "forward", or "ortho" (both by its root)
norm_type: the order of the norm
normalization: 0 nothing, 1 divides by the root of the size, 2 by the size
normalized: whether results are divided by the root of the frame length
normalized_shape: the last dimensions, over which is normalised
num_chunks: how many pieces
num_classes: how many classes; -1 takes one more than the largest
num_groups: how many groups the channels form
num_head: into how many heads the last size is split
num_samples: how many are drawn from each row
num_weights: how many rows the table has
offset: which diagonal; 0 is the main one, positive ones lie above it
offs: where each group of rows or columns ends, as int32
offsets: where each bag or segment begins
onesided: whether only frequencies from zero up are given, which suffices for real signals
operands: the tensors
ord: the order of the norm: a number, inf, -inf, "fro" or "nuc"
ortho_bparams: settings of the method "ortho"
ortho_fparams: settings of the method "ortho"
ortho_iparams: settings of the method "ortho"
other: the second operand
other_mask: which elements of the second operand count
out_dtype: the dtype of the result
out_int32: whether positions are int32, and not int64
output: the result of the forward pass
output_mask: for each of the results whether it is wanted; the others are None
output_padding: what is added to one side of the result's size, where a stride leaves it open
output_size: the size of the result
p:Number: the order of the norm
p:any: the order of the norm
p:float: the probability, or the order of a norm
p:int: the order
pad: how much is added before and behind, of the last dimension first
pad_mode: how the signal goes on where it is centred
padding: how much is added on both sides; of convolutions also "valid" or "same"
padding_idx: the row that gets no gradient
padding_mode: what lies outside: "zeros", "border" or "reflection"
per_sample_weights: a weight for each index
periodic: whether the window is one period of a periodic function (for spectra), not symmetric
physical_layout: the dimensions in the order in which they lie in memory
pin_memory: taken for compatibility: memory of the CPU is not pinned
pivot: whether rows are exchanged
pivots: the row exchanges that the factorisation gave
plain_indices: the column (or row) of each element
pos_weight: the weight of positive targets, for each class
posinf: what stands for positive infinity
positive: the points that are to be near
pow: the power of the norm
prepend: what stands before the first element along `dim`
prob: the probability of success
proj_bias: the bias of the last projection
proj_weight: the projection of what the heads give
q: the quantiles, from 0 to 1, or the rank that is asked for
qkv_bias: the biases of the three projections
qkv_weight: the projections of queries, keys and values, one below the other
query: the queries, ``[..., queries, features]``
r: how many elements a combination has
range: the lower and the upper edge
rcond: singular values below this share of the largest count as zero
real: the real parts
recompute_scale_factor: whether factors follow anew from the rounded sizes
reduce:bool: older form of `reduction`: False is "none"
reduce:str: "sum", "prod", "mean", "amax" or "amin" (the operator says which it takes)
reduction:str: "none" for each element's value, "mean" or "sum"
reduction:int: 0 for each element's value, 1 for the mean, 2 for the sum
repeats: how often; one number, or one for each element or dimension
replacement: whether the same may be drawn again
requires_grad: whether gradients are recorded for the result
rest: the further arguments
return_complex: whether the result is complex, and not pairs of real numbers
return_counts: whether the numbers of occurrences are given too
return_indices: whether the positions of the maxima are given too
return_inverse: whether the place of each element in the result is given too
right: whether a position behind equal elements is taken, and not before them
rounding_mode: None for the quotient, "trunc" towards zero, "floor" downwards
row: the number of rows
row_indices: the row of each element
rtol: the relative tolerance
running_mean: the running means, which training updates
running_var: the running variances, which training updates
s:int: the sizes of the signal in the transformed dimensions: cut off, or filled up with zeros
s:Number: the number
scale: the number that scores, or gradients, are multiplied by
scale_factor: how many times larger the result is
scale_factors: how many times larger the result is
scale_grad_by_freq: whether the gradient of a row is divided by how often it was read
scales_h: how many times higher the result is
scales_w: how many times wider the result is
self: the input
shape: the sizes of the result; one may be -1 where it follows from the number of elements
shifts: by how many places; one for each dimension
side: "left" or "right": where among equal elements
sigma: the width of the distribution
size: the sizes of the result
size_average: older form of `reduction`: False is "sum"
sizes: the sizes of the parts; one may be -1
some: whether the reduced form is given
sorted: whether the results are in order
sorted_sequence: ascending values along the last dimension
sorter: the order that sorts the sequence
source: the values that are taken
spacing: the distances of the points, or their coordinates
sparse: whether the gradient is a sparse tensor
sparse_dim: how many dimensions are sparse
sparse_grad: whether the gradient is a sparse tensor
split_size: the size of a piece, or of each piece
split_sizes: the sizes of the pieces
src: the values that are written
stable: whether equal elements keep their order
start: where the range begins
start_dim: the first dimension that is joined
std: the standard deviation
step: the distance of two numbers or positions
steps: how many numbers
storage_offset: the element of the storage that is the first
stride: the distance of two windows (a pool's is its size by default), or the strides of the result
swap: whether the nearer of the two distances to the negative counts
sym: whether the window is symmetric (for filters), not periodic (for spectra)
target: what the input is compared with
target_lengths: how many labels each sequence has
targets: the labels, padded or one behind another
tau: the temperature, the decay, or the factors of reflections
tensor: the tensor
tensor1: the first factor, or the dividend
tensor2: the second factor, or the divisor
tensors: the tensors
test_elements: the elements among which is looked
the_template: the tensor with the size
theta: the affine matrices, ``[n, 2, 3]`` or ``[n, 3, 4]``
threshold: where the function changes
to: the largest number, which is not drawn
tol: when the iteration ends
total: the sum that each element is a part of
tracker: called after each iteration
train: whether elements are dropped; outside training nothing happens
training: whether the module trains: outside training nothing is dropped and running statistics are used
transpose: whether the transposed matrix is meant
transposed: whether it is the transposed convolution
unbiased: whether the divisor is one less than the number of elements
unitriangular: whether the diagonal counts as ones
unpack_data: whether the triangular factors are given
unpack_pivots: whether the permutation is given
unsafe: whether the lengths are not checked
upper:bool: whether the upper triangle is meant
upper:float: the largest slope
upscale_factor: by how much height and width grow
use_input_stats: whether statistics come from the input, and not the running ones
v: the tensor
value: the number or values
values: the values
var: the variances
vec: the vector
vec1: the first vector
vec2: the second vector
weight: the weights: of a convolution ``[out, in / groups, ...]``, of a linear map ``[out, in]``, of a table
    ``[rows, features]``, of a loss one number a class
weights: what each element counts
win_length: the length of the window; it is centred in a frame
window: the window; ones by default
window_length: the number of points
with_replacement: whether an element may be taken twice
_stacklevel: taken for compatibility: from how deep a warning is told
wrap: whether the diagonal goes on behind the last row of a tall matrix
x: the input
x1: the first input
x2: the second input
y: the values
zero_infinity: whether losses that are infinite count as zero
"""


def _table() -> dict[str, str]:
    table: dict[str, str] = {}
    name = ""
    for line in _TEXT.strip().splitlines():
        if line.startswith(" "):
            table[name] += " " + line.strip()
            continue
        name, _, meaning = line.partition(": ")
        table[name] = meaning
    return table


_TABLE = _table()


def words_for(name: str, kind: str) -> str:
    """What an argument of a name and a type (as schemas write it, without ``?``) means; empty where the
    conventions do not say.
    """
    several = f"{name}[]" if kind.endswith("[]") or kind == "any" else name
    return (
        _TABLE.get(f"{name}:{kind.removesuffix('[]')}")
        or _TABLE.get(several)
        or _TABLE.get(name, "")
    )
