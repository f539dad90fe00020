# Devices other than cpu and meta: what a registered backend must provide, and how calls reach it.

cdef fk_storage *foreign_storage(int64_t nbytes, int dev) except NULL:
    backend = BACKENDS[(<device>DEVICES[dev]).type]
    buffer = backend.allocate(nbytes, DEVICES[dev])
    cdef fk_storage *s
    Py_INCREF(buffer)
    s = fk_storage_from(NULL, nbytes, <void *>buffer, release_owner)
    if s == NULL:
        Py_DECREF(buffer)
        raise_memory(nbytes)
    s.device = dev
    return s


def foreign_buffer(Tensor t):
    """The backend's own buffer behind a tensor of its device, and the offset into it in bytes."""
    return <object>t.st.owner, <int64_t>t.data_


cdef object foreign_address(fk_storage *st, int64_t offset):
    """Where bytes of a device lie: its buffer's `pointer`, and behind it; 0 where buffers have none."""
    pointer = getattr(<object>st.owner, "pointer", 0)
    return pointer + offset if isinstance(pointer, int) and pointer else 0


cdef int foreign_copy(Tensor dst, Tensor src) except -1:
    """Copies from, to and within a foreign device go through its backend."""
    here = (<device>DEVICES[dst.dev]).type
    there = (<device>DEVICES[src.dev]).type
    if dst.keys & K_FOREIGN and src.keys & K_FOREIGN and here != there:
        src = convert(detach_(src), src.dt, 0, False, None)     # two backends know each other through the host only
    BACKENDS[here if dst.keys & K_FOREIGN else there].copy(dst, src)
    return 0


cdef object foreign_fill(Tensor t, object value):
    BACKENDS[(<device>DEVICES[t.dev]).type].fill(t, value)
    return t


cdef object foreign_call(Op op, tuple args):
    """Run an operator on the device of its arguments."""
    cdef int dev = 0
    for x in args:
        for v in (x if isinstance(x, tuple) else (x,)):
            if isinstance(v, Tensor) and (<Tensor>v).keys & K_FOREIGN:
                if dev and dev != (<Tensor>v).dev:
                    raise said(RuntimeError, "[%s] tensors on one device were required: Expected all tensors to be on the same device, but "
                                       "found at least two devices, %s and %s!\nhint: move one with .to(device)"
                                       % (op.name, DEVICES[dev], DEVICES[(<Tensor>v).dev]))
                dev = (<Tensor>v).dev
    own = op.definition.kernels
    if own is not None and ((<device>DEVICES[dev]).type in own or "default" in own):
        return op.impl(*args)       # a user's operator that knows the device
    return BACKENDS[(<device>DEVICES[dev]).type].run(op, args)


def register_backend(str type, backend):
    """Add a device type. backend: has allocate(nbytes, device), copy(dst, src), fill(t, value), run(op, args)."""
    DEVICE_TYPES.add(type)
    BACKENDS[type] = backend
