# AES-128 on the bytes of tensors.
#
# Takes: contiguous tensors in main memory, one of them the key of 16 bytes. Gives: the bytes of `out`.
# Keeps true: what is made of a key is cleared behind each call; nothing is kept.


def aes_crypt(Tensor out, Tensor given, Tensor key, bint decrypt=False, counter=None, bint count=False):
    """Encrypt (or decrypt) the bytes of `given` into `out`, which has as many.

    By blocks of 16 each on its own, or with `count` by joining them with an encrypted counter: one that starts at
    `counter`, 16 bytes whose last is the lowest, or without it at 0, its first byte being the lowest.
    """
    cdef fk_aes aes
    cdef fk_counter at
    cdef int64_t size = given.numel_ * (<dtype>DTYPES[given.dt]).itemsize
    for t in (out, given, key):
        if (<Tensor>t).keys & (K_META | K_FOREIGN | K_STRIDED):
            raise said(ValueError, "[aes] contiguous tensors in main memory were required: got one of shape %s on %s" % (tuple(t.shape), t.device) + "\nhint: pass x.cpu().contiguous()")
    held = key.numel_ * (<dtype>DTYPES[key.dt]).itemsize
    if held != 16:
        raise said(ValueError, "[aes] a key of 16 bytes was required: got %d" % held + "\nhint: a key of AES-128 has 128 bits")
    if out.numel_ * (<dtype>DTYPES[out.dt]).itemsize != size:
        raise said(ValueError, "[aes] an output of %d bytes was required: got %d" % (size, out.numel_ * (<dtype>DTYPES[out.dt]).itemsize) + "\nhint: the output has as many bytes as the input")
    if not count and size % 16:
        raise said(ValueError, "[aes] whole blocks of 16 bytes were required: got %d bytes" % size + "\nhint: pad the input, or join it with a counter")
    refuse_keeping()
    check_writable("aes", out)
    at.low = at.high = 0
    if counter is not None:
        start = int.from_bytes(counter, "big")
        at.low = start & 0xffffffffffffffff; at.high = start >> 64
    fk_aes_expand(&aes, <const uint8_t *>key.data_)
    if size and count: run_counter(&aes, &at, given.data_, out.data_, size, counter is not None)
    elif size: run_blocks(&aes, given.data_, out.data_, size // 16, decrypt)
    fk_aes_forget(&aes, sizeof(fk_aes))
    bump(out)
    return out


def aes_instructions(allowed=None):
    """Whether the processor's instructions for AES are used; `allowed` says whether they may be."""
    global fk_aes_allowed
    if allowed is not None: fk_aes_allowed = bool(allowed)
    return bool(fk_aes_is_fast())
