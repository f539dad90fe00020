# Random numbers by rejection: gamma, Poisson and binomial samples with parameters per element; classes by weights.
#
# Keeps true: one call is one draw of its generator.

cdef extern from "fk_sample_rates.h" nogil:
    void fk_gamma_rate_body(char **, const int64_t *, const fk_scalar *, int64_t, int64_t) noexcept
    void fk_beta_rate_body(char **, const int64_t *, const fk_scalar *, int64_t, int64_t) noexcept

cdef dict _DRAW_KINDS = {"gamma": FK_GAMMA, "gamma of f32": FK_GAMMA_SINGLE, "poisson": FK_POISSON, "binomial": FK_BINOMIAL}


cdef Tensor doubles(str op, Tensor t):
    refuse_keeping()
    if t.dt != F64 or t.keys & (K_META | K_FOREIGN):
        raise said(TypeError, "[%s] a float64 tensor in main memory was required: got %s" % (op, DTYPES[t.dt]) + "\nhint: convert with x.double().cpu()")
    return contiguous_(t)


def random_draws(str kind, Tensor a, Tensor b=None, Generator generator=None, Tensor logs=None):
    """float64 samples in the shape of `a`: gamma (shape a), poisson (rate a), binomial (a trials, probability b).

    "gamma of f32" has parameters of single precision, which PyTorch's stream takes account of. `logs` is given the
    logarithms of gamma samples, which do not underflow."""
    cdef Tensor x = doubles(kind, a), y = doubles(kind, a if b is None else b)
    cdef Tensor out = new_tensor(x.nd, x.sh, F64, 0)
    cdef fk_stream stream
    cdef fk_request request
    if x.numel_ != y.numel_:
        raise said(ValueError, "[%s] parameters of one shape were required: got %s and %s" % (kind, tuple(a.shape), tuple(b.shape)) + "\nhint: facula.broadcast_tensors(a, b) brings them to one shape")
    if logs is not None and (logs.numel_ != x.numel_ or logs.dt != F64 or not logs.is_contiguous()):
        raise said(ValueError, "[%s] contiguous float64 logarithms in the shape of the parameters were required: got %s\nhint: facula.empty_like(a) has it" % (kind, tuple(logs.shape)))
    memset(&request, 0, sizeof(fk_request))
    if logs is not None:
        own_bytes(logs)
        request.logs = <double *>logs.data_
    request.kind = _DRAW_KINDS[kind]
    request.out = out.data_; request.n = out.numel_
    request.p = x.data_; request.q = <double *>y.data_
    stream = (<Generator>default_generator if generator is None else generator).next_draw()
    run_stream(&stream, &request)
    return out


def random_choices(Tensor weights, int64_t count, bint single, Generator generator=None):
    """`count` class numbers for each row of float64 weights, as PyTorch's stream draws them; sums in single precision or not."""
    cdef Tensor x = doubles("multinomial", weights)
    cdef int64_t classes = x.sh[x.nd - 1], rows = x.numel_ // classes if classes else 0
    cdef int64_t shape[2]
    shape[0] = rows; shape[1] = count
    cdef Tensor out = new_tensor(2, shape, I64, 0), share = new_tensor(1, &classes, F64, 0)
    cdef fk_stream stream = (<Generator>default_generator if generator is None else generator).next_draw()
    if stream.twister == NULL:
        raise said(RuntimeError, "[multinomial] PyTorch's stream was required: got the counter\nhint: Generator(stream='torch') draws from PyTorch's stream")
    run_choices(stream.twister, <double *>x.data_, <double *>share.data_, <int64_t *>out.data_, rows, classes, count, single)
    return out


def gamma_rate(Tensor shape, Tensor sample):
    """The derivative of standard gamma samples by their shapes, at fixed probabilities: float64, one shape."""
    cdef Tensor x = doubles("standard_gamma_grad", shape), y = doubles("standard_gamma_grad", sample)
    cdef Tensor out = new_tensor(x.nd, x.sh, F64, 0)
    cdef char *p[3]
    p[0] = out.data_; p[1] = x.data_; p[2] = y.data_
    if x.numel_ != y.numel_:
        raise said(ValueError, "[standard_gamma_grad] tensors of one shape were required: got %s and %s"
                         % (tuple(shape.shape), tuple(sample.shape)) + "\nhint: facula.broadcast_tensors(a, b) brings them to one shape")
    run_body(<fk_body>fk_gamma_rate_body, p, NULL, NULL, out.numel_, 64)
    return out


def beta_rate(Tensor sample, Tensor first, Tensor second):
    """The derivative of beta samples by the first of their shapes, at fixed probabilities, over one minus the sample:
    float64, one shape."""
    cdef Tensor x = doubles("dirichlet_grad", sample), a = doubles("dirichlet_grad", first), b = doubles("dirichlet_grad", second)
    cdef Tensor out = new_tensor(x.nd, x.sh, F64, 0)
    cdef char *p[4]
    p[0] = out.data_; p[1] = x.data_; p[2] = a.data_; p[3] = b.data_
    if x.numel_ != a.numel_ or x.numel_ != b.numel_:
        raise said(ValueError, "[dirichlet_grad] tensors of one shape were required: got %s, %s and %s"
                         % (tuple(sample.shape), tuple(first.shape), tuple(second.shape)) + "\nhint: facula.broadcast_tensors(a, b, c) brings them to one shape")
    run_body(<fk_body>fk_beta_rate_body, p, NULL, NULL, out.numel_, 64)
    return out
