def forward(self, primals_1, primals_2):
    sigmoid = facula.ops.aten.sigmoid.default(primals_1)
    binary_cross_entropy_elements = facula.ops.aten.binary_cross_entropy_elements.default(
        sigmoid, primals_2
    )
    sigmoid = None
    mean = facula.ops.aten.mean.default(binary_cross_entropy_elements)
    binary_cross_entropy_elements = None
    return (mean, primals_1, primals_2)


def forward(self, primals_1, primals_2, tangents_1):
    sigmoid = facula.ops.aten.sigmoid.default(primals_1)
    primals_1 = None
    div = facula.ops.aten.div.Tensor(tangents_1, 640)
    tangents_1 = None
    unsqueeze = facula.ops.aten.unsqueeze.default(div, 0)
    div = None
    unsqueeze_1 = facula.ops.aten.unsqueeze.default(unsqueeze, 1)
    unsqueeze = None
    expand = facula.ops.aten.expand.default(unsqueeze_1, [64, 10])
    unsqueeze_1 = None
    sub = facula.ops.aten.sub.Tensor(sigmoid, primals_2)
    primals_2 = None
    sub_1 = facula.ops.aten.sub.Tensor(1, sigmoid)
    mul = facula.ops.aten.mul.Tensor(sub_1, sigmoid)
    sub_1 = None
    clamp = facula.ops.aten.clamp.default(mul, 1e-12)
    mul = None
    div_1 = facula.ops.aten.div.Tensor(sub, clamp)
    sub = clamp = None
    mul_1 = facula.ops.aten.mul.Tensor(expand, div_1)
    expand = div_1 = None
    sub_2 = facula.ops.aten.sub.Tensor(1.0, sigmoid)
    mul_2 = facula.ops.aten.mul.Tensor(sub_2, sigmoid)
    sub_2 = sigmoid = None
    mul_3 = facula.ops.aten.mul.Tensor(mul_1, mul_2)
    mul_1 = mul_2 = None
    return (mul_3,)
