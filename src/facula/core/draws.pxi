# Random numbers by rejection: gamma, Poisson and binomial samples with parameters per element.
#
# Keeps true: one call uses up one offset of its generator; element i is a function of (seed, offset, i) and its
# parameters.

cdef extern from "fk_random_rejection.h" nogil:
    enum:
        FK_DRAW_GAMMA
        FK_DRAW_POISSON
        FK_DRAW_BINOMIAL
    void fk_random_draws(int, double *, const double *, const double *, int64_t, uint64_t, uint64_t)
    void fk_gamma_rate_body(char **, const int64_t *, const fk_scalar *, int64_t, int64_t) noexcept

cdef dict _DRAW_KINDS = {"gamma": FK_DRAW_GAMMA, "poisson": FK_DRAW_POISSON, "binomial": FK_DRAW_BINOMIAL}


cdef Tensor doubles(str op, Tensor t):
    refuse_keeping()
    if t.dt != F64 or t.keys & (K_META | K_FOREIGN):
        raise said(TypeError, "[%s] a float64 tensor in main memory was required: got %s" % (op, DTYPES[t.dt]) + "\nhint: convert with x.double().cpu()")
    return contiguous_(t)


def random_draws(str kind, Tensor a, Tensor b=None, Generator generator=None):
    """float64 samples in the shape of `a`: gamma (shape a), poisson (rate a), binomial (a trials, probability b)."""
    cdef Tensor x = doubles(kind, a), y = doubles(kind, a if b is None else b)
    cdef Tensor out = new_tensor(x.nd, x.sh, F64, 0)
    cdef int which = _DRAW_KINDS[kind]
    cdef uint64_t seed, offset
    if x.numel_ != y.numel_:
        raise said(ValueError, "[%s] parameters of one shape were required: got %s and %s" % (kind, tuple(a.shape), tuple(b.shape)) + "\nhint: facula.broadcast_tensors(a, b) brings them to one shape")
    if generator is None:
        generator = default_generator
    seed = generator._seed; offset = generator._offset
    generator._offset += 1
    with nogil: fk_random_draws(which, <double *>out.data_, <double *>x.data_, <double *>y.data_, out.numel_, seed, offset)
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
    with nogil: fk_parallel(<fk_body>fk_gamma_rate_body, p, NULL, NULL, out.numel_, 64)
    return out
