def forward(self, primals_1, primals_2, tangents_1):
    log_softmax = facula.ops.aten.log_softmax.int(primals_1, -1)
    primals_1 = None
    nll_rows = facula.ops.aten._nll_rows.default(log_softmax, primals_2, -100)
    ne = facula.ops.aten.ne.Scalar(primals_2, -100)
    sum_1 = facula.ops.aten.sum.default(nll_rows)
    nll_rows = None
    sum_2 = facula.ops.aten.sum.default(ne)
    ne = None
    div = facula.ops.aten.div.Tensor(sum_1, sum_2)
    sum_1 = None
    to_copy = facula.ops.aten._to_copy.default(sum_2, dtype=facula.float32)
    sum_2 = None
    div_1 = facula.ops.aten.div.Tensor(tangents_1, to_copy)
    tangents_1 = to_copy = None
    unsqueeze = facula.ops.aten.unsqueeze.default(div_1, 0)
    div_1 = None
    expand = facula.ops.aten.expand.default(unsqueeze, [64])
    unsqueeze = None
    ne_1 = facula.ops.aten.ne.Scalar(primals_2, -100)
    zeros_like = facula.ops.aten.zeros_like.default(primals_2)
    where = facula.ops.aten.where.self(ne_1, primals_2, zeros_like)
    primals_2 = zeros_like = None
    unsqueeze_1 = facula.ops.aten.unsqueeze.default(where, 1)
    where = None
    neg = facula.ops.aten.neg.default(expand)
    zeros_like_1 = facula.ops.aten.zeros_like.default(expand)
    where_1 = facula.ops.aten.where.self(ne_1, neg, zeros_like_1)
    ne_1 = neg = zeros_like_1 = None
    unsqueeze_2 = facula.ops.aten.unsqueeze.default(where_1, 1)
    where_1 = None
    new_zeros = facula.ops.aten.new_zeros.default(expand, [64, 10])
    expand = None
    scatter = facula.ops.aten.scatter.src(new_zeros, 1, unsqueeze_1, unsqueeze_2)
    new_zeros = unsqueeze_1 = unsqueeze_2 = None
    log_softmax_backward = facula.ops.aten.log_softmax_backward.default(scatter, log_softmax, -1)
    scatter = log_softmax = None
    return [div, log_softmax_backward]
