# Tensors without elements that stand for others: what compilers compute shapes with.
#
# Takes: calls that dispatch offers to a fake tensor's mode. Gives: the same call on plain tensors of the meta device, and
# its results as fake tensors again.
# Keeps true: a fake tensor's storage is nobody else's memory; views of a fake tensor share its storage and know their root;
# in-place forms give back the tensor that they were called with.

cdef class FakeCall:
    """One call while it runs without elements."""
    cdef object mode
    cdef object device           # what the results stand on
    cdef bint scalar             # so far only 0-d tensors on the CPU decided on the device
    cdef list fakes


cdef object strip(object x, FakeCall call):
    """An argument with plain tensors of the meta device for fake ones."""
    cdef Tensor t
    if isinstance(x, Tensor):
        t = <Tensor>x
        if not (t.keys & K_FAKE):
            x = call.mode.admit(x)
            if x is None:
                return t
            t = <Tensor>x
        take_device(t, call)
        call.fakes.append(t)
        return alias(t)
    if type(x) is tuple:
        return tuple([strip(v, call) for v in <tuple>x])
    if type(x) is list:
        return [strip(v, call) for v in <list>x]
    return x


cdef int take_device(Tensor t, FakeCall call) except -1:
    device = t.fake_device
    if call.device is None or (call.scalar and not (t.nd == 0 and device.type == "cpu")):
        call.device = device
        call.scalar = t.nd == 0 and device.type == "cpu"
    elif device != call.device and not (t.nd == 0 and device.type == "cpu"):
        call.mode.mixed_devices(call.device, device)
    return 0


def run_fake(function, tuple args, dict kwargs, mode):
    """Run an operator or method on tensors without elements; gives fake tensors of `mode`.

    Real tensors among the arguments go through `mode.admit(tensor)`, which gives a fake one, None to leave it as it is, or raises.
    """
    cdef FakeCall call = FakeCall.__new__(FakeCall)
    cdef uint32_t tls
    cdef object target = None
    call.mode = mode
    call.fakes = []
    args = strip(args, call)
    if kwargs:
        kwargs = {k: strip(v, call) for k, v in kwargs.items()}
        target = kwargs.get("device")
    if target is not None:
        call.device = <object>DEVICES[device_number(target)]
        kwargs["device"] = <object>DEVICES[1]
    elif not call.fakes and isinstance(function, Op) and (<Op>function).makes_tensors:
        call.device = <object>DEVICES[device_number(None)]
        kwargs = dict(kwargs, device=<object>DEVICES[1])
    tls = fk_tls_keys()
    fk_tls_set((tls | K_NOGRAD) & ~<uint32_t>(K_DISPATCH | K_INTERPRETER | K_FUNCTION_MODE | K_AUTOCAST | K_PROFILE))
    try:
        result = function(*args, **kwargs)
    finally:
        fk_tls_set(tls)
    return as_fakes(result, call)


cdef object as_fakes(object result, FakeCall call):
    if isinstance(result, Tensor):
        return as_fake(<Tensor>result, call)
    if isinstance(result, (tuple, list)):
        made = [as_fakes(r, call) for r in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    return result


cdef Tensor as_fake(Tensor plain, FakeCall call):
    cdef Tensor origin = None, t
    if plain.keys & K_FAKE:
        return plain
    for f in call.fakes:
        if (<Tensor>f).st == plain.st:
            origin = f
            break
    return fake_tensor(call.mode.tensor_class, plain, call.mode, call.device, origin if plain.base is not None else None)


def fake_tensor(cls, Tensor plain, mode, device, Tensor origin=None):
    """A tensor of class `cls` on the storage of `plain`, which stands for one on `device`.

    origin: the fake tensor that it is a view of.
    """
    cdef Tensor t = bare_tensor(cls)
    plain.st.refs += 1
    t.st = plain.st
    t.data_ = plain.data_; t.dt = plain.dt; t.dev = plain.dev; set_rank(t, plain.nd); t.numel_ = plain.numel_
    memcpy(t.sh, plain.sh, plain.nd * 8)
    memcpy(t.sd, plain.sd, plain.nd * 8)
    t.keys |= plain.keys & (K_STRIDED | K_META | K_INFERENCE)
    t.fake_mode = mode
    t.fake_device = device
    if origin is not None:
        set_base(t, origin.base if origin.base is not None else origin)
    return t


def plain_alias(Tensor t):
    """The same memory in a tensor of no subclass, without history: on the meta device for a fake tensor."""
    return alias(t)


cdef Tensor fake_alias(Tensor t):
    """A fake tensor on the same storage, without history."""
    cdef Tensor r = fake_tensor(type(t), t, t.fake_mode, t.fake_device)
    symbolic = t._symbolic
    if symbolic is not None:
        r._symbolic = symbolic
    return r


cdef inline object shape_of_fake(Tensor t):
    """The sizes as Python sees them: a fake tensor's may be symbols."""
    return t.shape if t.keys & K_FAKE else make_size(t.nd, t.sh)


def fake_snapshot(Tensor t):
    """A fake tensor as it is now, without history: later writes to its geometry do not change it."""
    return fake_alias(t)


def fake_like(cls, Tensor t, mode):
    """A fake tensor with the geometry, dtype and device of a real one, and memory of its own."""
    cdef Tensor f = bare_tensor(cls)
    cdef int i
    cdef int64_t extent = 1
    for i in range(t.nd):
        extent += (t.sh[i] - 1) * t.sd[i]
    f.st = new_storage((extent if t.numel_ else 0) * ITEMSIZE[t.dt], 1)
    f.data_ = f.st.data
    f.dt = t.dt; f.dev = 1; set_rank(f, t.nd); f.numel_ = t.numel_
    memcpy(f.sh, t.sh, t.nd * 8)
    memcpy(f.sd, t.sd, t.nd * 8)
    f.keys |= K_META | (t.keys & K_STRIDED)
    f.fake_mode = mode
    f.fake_device = t.device
    return f


def tensor_place(Tensor t):
    """Where the elements of a tensor are and how they are read: equal for tensors that are the same elements."""
    cdef int64_t place[2 + 2 * MAX_DIMS]
    place[0] = <int64_t><uintptr_t>t.st
    place[1] = <int64_t><uintptr_t>t.data_
    memcpy(place + 2, t.sh, t.nd * 8)
    memcpy(place + 2 + t.nd, t.sd, t.nd * 8)
    return (<char *>place)[:(2 + 2 * t.nd) * 8], t.dt


def storage_place(Tensor t):
    """A number that two tensors share exactly as long as they share their storage."""
    return <uintptr_t>t.st


def is_dispatching(Tensor t):
    """Whether operators on `t` are offered to dispatch overrides in this thread."""
    return ((t.keys | fk_tls_keys()) & K_DISPATCH) != 0
