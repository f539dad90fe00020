# Tensor methods that are no operators: copies, history, hooks, conversions; and the switches of the calling thread.

cdef int set_requires_grad(Tensor t, bint value) except -1:
    if value:
        refuse_keeping()
        if KIND[t.dt] < KIND_FLOAT:
            raise said(RuntimeError, "[requires_grad] a floating-point or complex tensor was required: only Tensors of floating point and "
                               "complex dtype can require gradients, got %s" % (<dtype>DTYPES[t.dt]).name + "\nhint: convert it first: x.float()")
        if t.keys & K_INFERENCE and not (fk_tls_keys() & K_INFERENCE):
            raise said(RuntimeError, "[requires_grad] a normal tensor was required: Setting requires_grad=True on inference tensor outside "
                               "InferenceMode is not allowed.\nhint: x.clone() outside of inference_mode gives a normal tensor")
        t.keys = (t.keys | K_GRAD) & ~<uint32_t>K_UNCOUNTED
    else:
        refuse_for_calls()
        if t.fn_ is not None and t.keys & K_GRAD:
            raise said(RuntimeError, "[requires_grad] a leaf was required: you can only change requires_grad flags of leaf variables.\n"
                               "hint: use detach() to get a tensor without history")
        t.keys &= ~<uint32_t>K_GRAD
    return 0


cdef int check_grad_assignment(Tensor t, object value) except -1:
    cdef Tensor g
    if not isinstance(value, Tensor):
        raise said(TypeError, "[grad] a tensor or None was required: assigned grad expected to be a Tensor or None but got " + type(value).__name__ + "\nhint: x.grad = None clears the gradient")
    g = value
    if g is t:
        raise said(RuntimeError, "[grad] another tensor was required: can't assign Variable as its own grad\nhint: assign a copy: x.grad = x.detach().clone()")
    if not same_shape(g, t):
        raise said(RuntimeError, "[grad] a gradient of shape %s was required: assigned grad has data of a different size, %s"
                           % (list(make_size(t.nd, t.sh)), list(make_size(g.nd, g.sh))) + "\nhint: reshape or expand it to the shape of the tensor")
    if g.dt != t.dt:
        raise said(RuntimeError, "[grad] a gradient of dtype %s was required: assigned grad has data of a different type, %s"
                           % ((<dtype>DTYPES[t.dt]).name, (<dtype>DTYPES[g.dt]).name) + "\nhint: convert it with .to(x.dtype)")
    if g.dev != t.dev and not ((g.keys | t.keys) & K_SPARSE):
        raise said(RuntimeError, "[grad] a gradient on %s was required: assigned grad has data located on a different device, %s"
                           % (DEVICES[t.dev], DEVICES[g.dev]) + "\nhint: move it with .to(x.device)")
    return 0


cdef int set_data(Tensor t, Tensor other) except -1:
    """`t.data = other`: t gets the elements of other and keeps its own history and flags."""
    cdef fk_storage *old = t.st
    if KIND[other.dt] < KIND_FLOAT and t.keys & K_GRAD:
        raise said(RuntimeError, "[data] data of a floating-point dtype was required: data set to a tensor that requires gradients must be "
                           "floating point or complex dtype\nhint: convert it with .float(), or call requires_grad_(False) first")
    other.st.refs += 1
    t.st = other.st
    t.data_ = other.data_
    refuse_keeping()
    t.dt = other.dt; set_rank(t, other.nd); t.dev = other.dev; t.numel_ = other.numel_
    memcpy(t.sh, other.sh, other.nd * 8)
    memcpy(t.sd, other.sd, other.nd * 8)
    t.keys = (t.keys & ~<uint32_t>(K_STRIDED | K_META | K_FOREIGN)) | (other.keys & (K_STRIDED | K_META | K_FOREIGN))
    if t.view_link != NULL: forget_view(t)
    t.base = None
    fk_storage_give_up(old)
    return 0


# ------------------------------------------------------------------ methods, attached to Tensor below

cdef list _METHODS = []


def _method(f):
    _METHODS.append(f)
    return f


@_method
@cython.binding(True)
def m_detach(Tensor self):
    """The same elements in a tensor without history."""
    if (self.keys | fk_tls_keys()) & (K_SLOW_METHOD):
        r = python_method(m_detach, (self,))
        if r is NotImplemented: r = counted_with(dispatch_method(m_detach, (self,), {}, self.keys | fk_tls_keys()), self)
        if r is not NotImplemented: return r
    return detach_(self)


cdef bint rewritten():
    """Whether the innermost interpreter rewrites a program, and so must see what no other transform cares about."""
    cdef list stack = interpreter_stack()
    return bool(stack) and getattr(stack[len(stack) - 1], "rewrites", False)


@cython.binding(True)
def assign_data(Tensor self, Tensor other):
    """`self.data = other`."""
    if fk_tls_keys() & K_INTERPRETER and rewritten():
        python_method(assign_data, (self, other))
    else:
        set_data(self, other)


def adopt_history(Tensor t, Tensor source):
    """Let gradients of `t`, a fresh tensor without history, flow to `source` unchanged."""
    cdef Node n
    if source.keys & K_GRAD:
        n = new_node(None, clone_backward, 1, 1)
        n.label = "CloneBackward0"
        add_edge(n, 0, source)
        attach(t, n, 0)
    return t


def storage_key(Tensor t):
    """A number that tensors on the same memory have in common, also where they have no elements."""
    return <uintptr_t>t.st


cdef object python_method(object function, tuple args, dict kwargs={}):
    """Offer a method call to the overrides."""
    cdef uint32_t k = fk_tls_keys()
    for a in args:
        k |= keys_of(a)
    if k & K_PROFILED:
        k = take_recorded(k)
    if k & (K_OVERRIDE | K_FUNCTION_MODE):
        r = torch_function(function, args, kwargs, k)
        if r is not NotImplemented:
            return r
    if k & K_PROFILE:
        return recorded_call(function, args, kwargs)
    cdef list stack
    if k & K_SPARSE and k & K_INTERPRETER and SPARSE[2](args, kwargs):
        return SPARSE[1](function, args, kwargs)
    if k & K_INTERPRETER:
        stack = interpreter_stack()
        if stack:
            return stack[len(stack) - 1].process(function, args, kwargs)
    if k & K_TRANSFORM:
        raise_escaped(function)
    if k & K_SPARSE:
        return SPARSE[1](function, args, kwargs)
    return NotImplemented


@_method
@cython.binding(True)
def m_detach_in_place(Tensor self):
    """Cut the tensor off its history."""
    if fk_tls_keys() & K_INTERPRETER and rewritten():
        return python_method(m_detach_in_place, (self,))
    if self.base is not None:
        raise said(RuntimeError, "[detach_] a tensor that is no view was required: Can't detach views in-place. Use detach() instead.\nhint: x = x.detach()")
    refuse_for_calls()
    self.fn_ = None
    self.out_nr = 0
    self.keys &= ~<uint32_t>K_GRAD
    return self


@_method
@cython.binding(True)
def m_backward(Tensor self, gradient=None, retain_graph=None, bint create_graph=False, inputs=None):
    """Differentiate from here: accumulates into `.grad` of the leaves.

    gradient: the cotangent, of this tensor's shape; None for a scalar.
    """
    if (self.keys | keys_of(gradient) | fk_tls_keys()) & (K_OVERRIDE | K_FUNCTION_MODE):
        r = torch_function(m_backward, (self, gradient, retain_graph, create_graph, inputs), {}, self.keys)
        if r is not NotImplemented: return r
    if retain_graph is None:
        retain_graph = create_graph
    if gradient is None and KIND[self.dt] == KIND_COMPLEX and self.numel_ == 1:
        raise said(RuntimeError, "[backward] a real output was required: grad can be implicitly created only for real scalar outputs but got "
                           + (<dtype>DTYPES[self.dt]).name + "\nhint: take a real number of it first, e.g. .abs() or .real")
    if gradient is not None:
        if not isinstance(gradient, Tensor):
            raise said(TypeError, "[backward] a tensor was required as the gradient: gradients can be either Tensors or None, but got " + type(gradient).__name__ + "\nhint: pass facula.ones_like(output), or reduce the output to one number")
        if not same_shape(self, <Tensor>gradient):
            raise said(RuntimeError, "[backward] a gradient of shape %s was required: Mismatch in shape: grad_output[0] has a shape of %s and "
                               "output[0] has a shape of %s." % (list(make_size(self.nd, self.sh)), list((<Tensor>gradient).shape), list(make_size(self.nd, self.sh))) + "\nhint: the gradient has the shape of the output, e.g. facula.ones_like(output)")
        if KIND[(<Tensor>gradient).dt] == KIND_COMPLEX and KIND[self.dt] != KIND_COMPLEX:
            raise said(RuntimeError, "[backward] a real gradient was required: For complex Tensors, both grad_output and output are required "
                               "to have the same dtype.\nhint: convert it with gradient.to(output.dtype)")
    if inputs is not None:
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        if len(inputs) == 0:
            raise said(RuntimeError, "[backward] inputs were required: 'inputs' argument to backward() cannot be empty.\nhint: leave inputs out to reach all leaves")
    run_backward((self,), (gradient,), retain_graph, create_graph, inputs if inputs is not None else (), True, True)


@_method
@cython.binding(True)
def m_register_hook(Tensor self, hook):
    """Call `hook(grad)` when the gradient of this tensor is computed; it may return another."""
    cdef Node n
    if not (self.keys & K_GRAD):
        raise said(RuntimeError, "[register_hook] a tensor that requires grad was required: cannot register a hook on a tensor that "
                           "doesn't require gradient\nhint: call requires_grad_() first")
    refuse_for_calls()
    import collections
    n = edge(self) if self.fn_ is not None else None
    if n is None:
        if self.hooks is None:
            self.hooks = collections.OrderedDict()
        return make_handle(self.hooks, hook)
    if n.pre_hooks is None:
        n.pre_hooks = []
    for number, hooks in n.pre_hooks:
        if number == self.out_nr:
            return make_handle(hooks, hook)
    hooks = collections.OrderedDict()
    n.pre_hooks.append((self.out_nr, hooks))
    self.hooks = hooks
    return make_handle(hooks, hook)


@_method
@cython.binding(True)
def m_register_post_accumulate_grad_hook(Tensor self, hook):
    """Call `hook(tensor)` after its `.grad` was updated; for leaves."""
    if not (self.keys & K_GRAD):
        raise said(RuntimeError, "[register_post_accumulate_grad_hook] a tensor that requires grad was required: cannot register a hook on a "
                           "tensor that doesn't require gradient\nhint: call requires_grad_() first")
    if self.fn_ is not None:
        raise said(RuntimeError, "[register_post_accumulate_grad_hook] a leaf was required: post accumulate grad hooks cannot be registered "
                           "on non-leaf tensors\nhint: use register_hook on results of operators")
    import collections
    if self.post_hooks is None:
        self.post_hooks = collections.OrderedDict()
    return make_handle(self.post_hooks, hook)


@_method
@cython.binding(True)
def m_retain_grad(Tensor self):
    """Keep `.grad` of a tensor that is no leaf."""
    if not (self.keys & K_GRAD):
        raise said(RuntimeError, "[retain_grad] a tensor that requires grad was required: can't retain_grad on Tensor that has requires_grad=False\nhint: call requires_grad_() on the leaves before it is computed")
    refuse_for_calls()
    if self.fn_ is None or self.retains_grad:
        return
    keep_gradient(self)


cdef int keep_gradient(Tensor self) except -1:
    """Hook a tensor that is no leaf, so that its gradient stays; after a write in place, that of what was written."""
    import weakref
    reference = weakref.ref(self)

    def keep(grad):
        tensor = reference()
        if tensor is not None and grad is not None:
            tensor._grad = grad if tensor._grad is None else tensor._grad + grad
    if self.retains_grad: self._retains_grad.remove()
    self._retains_grad = m_register_hook(self, keep)
    return 0


@_method
@cython.binding(True)
def m_clone(Tensor self, *, memory_format=None):
    """A copy, part of the history."""
    cdef Tensor t = None
    cdef Node n
    cdef dict kwargs
    if (self.keys | fk_tls_keys()) & K_SLOW_METHOD:
        kwargs = {} if memory_format is None else {"memory_format": memory_format}
        r = python_method(m_clone, (self,), kwargs)
        if r is not NotImplemented: return r
        r = dispatch_method(m_clone, (self,), kwargs, self.keys | fk_tls_keys())
        if r is not NotImplemented: t = r
    if t is None:
        if memory_format is None or memory_format is preserve_format:
            t = new_like(self, self.dt)
        else:
            t = empty_in_format(self.nd, self.sh, self.dt, self.dev, memory_format)
        copy_into(t, self)
    if self.keys & K_GRAD and not (fk_tls_keys() & K_NOGRAD):
        n = new_node(None, clone_backward, 1, 1)
        n.label = "CloneBackward0"
        add_edge(n, 0, self)
        attach(t, n, 0)
    return t



@_method
@cython.binding(True)
def m_contiguous(Tensor self, *, memory_format=contiguous_format):
    """The tensor itself when its memory is in order, else a copy that is."""
    if (self.keys | fk_tls_keys()) & K_SLOW_METHOD:
        r = python_method(m_contiguous, (self,), {} if memory_format is contiguous_format else {"memory_format": memory_format})
        if r is not NotImplemented: return r
    if memory_format is contiguous_format and not (self.keys & K_STRIDED):
        return self
    return convert(self, self.dt, self.dev, False, memory_format)


@_method
@cython.binding(True)
def m_to(Tensor self, *args, dtype=None, device=None, layout=None, bint non_blocking=False, bint copy=False, memory_format=None):
    """Another dtype, device or memory order: `to(dtype)`, `to(device, dtype)`, `to(other)`; `layout` is the tensor's own."""
    cdef int dt = self.dt, dev = self.dev
    if layout is not None and layout is not self.layout:
        raise said(RuntimeError, "[to] the layout of the tensor was required, %s (to(options) doesn't support converting to a different layout): got %s"
                   % (self.layout, layout) + "\nhint: to_sparse() and to_dense() convert between layouts")
    if (self.keys | fk_tls_keys()) & (K_OVERRIDE | K_FUNCTION_MODE | K_INTERPRETER | K_TRANSFORM | K_PROFILE | K_SPARSE):
        kw = {}
        if dtype is not None: kw["dtype"] = dtype
        if device is not None: kw["device"] = device
        if copy: kw["copy"] = True
        if memory_format is not None: kw["memory_format"] = memory_format
        r = python_method(m_to, (self,) + args, kw)
        if r is not NotImplemented: return r
    if self.keys & K_FAKE:
        dev = device_number(self.fake_device)
    position = 0
    if args:
        first = args[0]
        position = 1
        if isinstance(first, Tensor):
            dt = (<Tensor>first).dt
            dev = device_number(first.device) if (<Tensor>first).keys & K_SPARSE else (<Tensor>first).dev
        elif type(first) is DTYPE_TYPE or first in (float, int, bool, complex):
            dt = as_dtype(first).index
        elif first is None or isinstance(first, (str, DEVICE_TYPE, int)):
            if first is not None: dev = device_number(first)
            if len(args) > 1 and (args[1] is None or type(args[1]) is DTYPE_TYPE or isinstance(args[1], type)):
                if args[1] is not None: dt = as_dtype(args[1]).index
                position = 2
        else:
            raise said(TypeError, "[to] a dtype, a device or a tensor was required: to() received an invalid combination of arguments - got " + type(first).__name__ + "\nhint: for example x.to(facula.float16), x.to('cpu') or x.to(other)")
        if len(args) > position: non_blocking = args[position]
        if len(args) > position + 1: copy = args[position + 1]
    if dtype is not None: dt = as_dtype(dtype).index
    if device is not None: dev = device_number(device)
    if self.keys & K_FAKE and dev == self.dev and self.fake_device.type != "meta":
        kw = {"device": <object>DEVICES[dev], "dtype": <object>DTYPES[dt]}
        return dispatch_method(m_to, (self,), kw, K_DISPATCH)
    return convert(self, dt, dev, copy, memory_format)

cdef object DTYPE_TYPE = dtype
cdef object DEVICE_TYPE = device


@_method
@cython.binding(True)
def m_copy_(Tensor self, src, bint non_blocking=False):
    """Overwrite with the elements of `src`, broadcast and cast."""
    cdef uint32_t k = self.keys | fk_tls_keys() | keys_of(src)
    if k & K_SLOW_METHOD:
        r = python_method(m_copy_, (self, src))
        if r is not NotImplemented: return r
    if not isinstance(src, Tensor):
        if isinstance(src, (int, float, complex)):
            src = tensor(src)
        else:
            raise said(TypeError, "[copy_] a tensor was required: argument 'src' must be Tensor, not " + type(src).__name__ + "\nhint: facula.as_tensor(source) makes a tensor")
    return copy_inplace(self, <Tensor>src, "copy_")


@_method
@cython.binding(True)
def m_fill_(Tensor self, value):
    """Set every element to a number (or a 0-d tensor)."""
    cdef Node n
    cdef uint32_t tls = fk_tls_keys()
    if (self.keys | tls | keys_of(value)) & K_SLOW_METHOD:
        r = python_method(m_fill_, (self, value))
        if r is not NotImplemented: return r
    if isinstance(value, Tensor):
        if (<Tensor>value).nd != 0:
            raise said(RuntimeError, "[fill_] a number or a 0-d tensor was required: fill_ only supports 0-dimension value tensor but got tensor with %d dimensions." % (<Tensor>value).nd + "\nhint: copy_ takes tensors of more elements")
        if (<Tensor>value).keys & K_GRAD and not (tls & K_NOGRAD):
            return copy_inplace(self, <Tensor>value, "fill_")
        value = item(value)
    elif not isinstance(value, (int, float, complex)):
        value = value.item() if hasattr(value, "item") else value
    check_fill("fill", self, tls)
    check_fit("fill", "value", value, self.dt, FIT_ALL if self.nd or KIND[self.dt] != KIND_FLOAT else FIT_WHOLE | FIT_WIDE)
    n = None
    if self.keys & K_GRAD and not (tls & K_NOGRAD):
        n = new_node(None, copy_backward, 2, 1)
        n.label = "FillBackward0"
        add_edge(n, 0, self)
    if dispatch_method(m_fill_, (self, value), {}, self.keys | tls) is NotImplemented:
        fill_value(self, value)
    bump(self)
    if n is not None:
        rebase(self, n)
    return self


@_method
@cython.binding(True)
def m_zero_(Tensor self):
    """Set every element to zero."""
    cdef uint32_t tls = fk_tls_keys()
    if (self.keys | tls) & K_SLOW_METHOD or (self.keys & K_GRAD and not (tls & K_NOGRAD)):
        return self.fill_(0)
    check_fill("zero", self, tls)
    fill_zero(self)
    bump(self)
    return self


@_method
@cython.binding(True)
def m_resize_(Tensor self, *shape, memory_format=None):
    """Give the tensor another shape, growing its storage where needed; elements beyond the old ones are unset."""
    cdef int64_t sh[MAX_DIMS]
    cdef int nd = parse_shape(shape, sh)
    if self.keys & K_GRAD and not (fk_tls_keys() & K_NOGRAD):
        raise said(RuntimeError, "[resize_] a tensor that does not require grad was required: cannot resize variables that require grad\nhint: resize x.detach(), or make a new tensor")
    if taken_by_mode(Tensor.resize_, (self, tuple(make_size(nd, sh)))): return self
    before = self.st.nbytes if self.st != NULL else 0
    if nd != self.nd or memcmp(sh, self.sh, nd * 8) != 0: resize_tensor(self, nd, sh)
    if UNSET[0] is not None and self.st != NULL and self.st.nbytes > before: UNSET[0](self, before)
    if memory_format is not None: lay_out(self, memory_format)
    return self


cdef int lay_out(Tensor self, object memory_format) except -1:
    """Give a tensor, whose elements are to be set, the strides of a memory format."""
    cdef Tensor like
    if memory_format is preserve_format:
        raise said(RuntimeError, "[resize_] a memory format with an order of its own was required: got facula.preserve_format (Unsupported memory format)\nhint: pass facula.contiguous_format or facula.channels_last")
    like = empty_in_format(self.nd, self.sh, self.dt, 1, memory_format)
    memcpy(self.sd, like.sd, self.nd * 8)
    compute_keys(self)
    return 0


@_method
@cython.binding(True)
def m_resize_as_(Tensor self, Tensor other, *, memory_format=None):
    """Give the tensor the shape of another; with `memory_format` that layout, of `preserve_format` that of the other."""
    self.resize_(other.shape)
    if memory_format is preserve_format:
        memory_format = channels_last if other.nd == 4 and channels_last_strides(other) else (
            channels_last_3d if other.nd == 5 and channels_last_strides(other) else contiguous_format)
    if memory_format is not None: lay_out(self, memory_format)
    return self


@_method
@cython.binding(True)
def m_set_(Tensor self, source=None, storage_offset=0, size=None, stride=None):
    """Put the tensor onto other memory: of a storage, or that of another tensor."""
    cdef Tensor other
    if source is None:
        other = new_tensor(1, [<int64_t>0], self.dt, self.dev)
        set_data(self, other)
        return self
    if isinstance(source, Tensor):
        other = source
        if size is None:
            if other.dt != self.dt:
                raise said(RuntimeError, "[set_] a tensor of dtype %s was required: got %s" % ((<dtype>DTYPES[self.dt]).name, (<dtype>DTYPES[other.dt]).name) + "\nhint: convert it with .to(dtype)")
            if not taken_by_mode(Tensor.set_, (self, other)): set_data(self, other)
            return self
        source = storage_of(other)
    kind = getattr(source, "_untyped_storage", None)
    if kind is not None:
        if source.dtype is not DTYPES[self.dt]:
            raise said(RuntimeError, "[set_] a storage of the tensor's dtype was required: Expected a Storage of type %sStorage or an "
                               "UntypedStorage, but got type %sStorage for argument 'storage'"
                               % ((<dtype>DTYPES[self.dt]).type_word, (<dtype>source.dtype).type_word) + "\nhint: .untyped() takes the bytes as they are")
        source = kind
    if size is None:
        size = ((<UntypedStorage?>source).nbytes() // ITEMSIZE[self.dt],)
    if isinstance(size, int): size = (size,)
    if stride is None:
        stride = []
        s = 1
        for n in reversed(size):
            stride.insert(0, s)
            s *= max(n, 1)
    size = tuple(size); stride = tuple(stride)
    grow_for(self, source, storage_offset, size, stride)
    return set_storage(self, source, storage_offset, size, stride)


@_method
@cython.binding(True)
def m_untyped_storage(Tensor self):
    """The bytes behind the tensor."""
    return storage_of(self)


@_method
@cython.binding(True)
def m_type_as(Tensor self, Tensor other):
    """Cast to the dtype of another tensor."""
    return self.to(dtype=other.dtype)


@_method
@cython.binding(True)
def m_cpu(Tensor self, memory_format=None):
    """The tensor on the CPU."""
    return self.to("cpu") if memory_format is None else self.to("cpu", memory_format=memory_format)


@_method
@cython.binding(True)
def m_type(Tensor self, dtype=None, non_blocking=False):
    """The old type name, or a cast when `dtype` is given."""
    if dtype is None:
        return type_word(self)
    if isinstance(dtype, str):
        word = dtype.rpartition(".")[2].replace("Tensor", "")
        for d in DTYPES:
            if (<DTYPE>d).type_word == word:
                return self.to(d)
        raise said(ValueError, "[type] a known type was required: invalid type: %r" % dtype + "\nhint: pass a dtype such as facula.float32, or a name such as 'torch.FloatTensor'")
    if isinstance(dtype, type):             # a class: that of tensors of one dtype, or Tensor
        dtype = DTYPES[DEFAULT_DTYPE] if dtype is Tensor else getattr(dtype, "dtype", dtype)
    return self.to(dtype)

ctypedef dtype DTYPE


@_method
@cython.binding(True)
def m_numpy(Tensor self, *, bint force=False):
    """A NumPy array on the same memory. Raises for tensors that require grad, unless `force` (which may copy)."""
    return to_numpy(self, force)


@_method
@cython.binding(True)
def m___array__(Tensor self, dtype=None, copy=None):
    array = to_numpy(self)
    if dtype is not None and copy is False and array.dtype != dtype:
        raise said(ValueError, "[__array__] memory that can be shared was required with copy=False: got %s for %s" % (array.dtype, dtype) + "\nhint: leave copy=False out, or ask for the dtype of the tensor")
    if dtype is not None:
        array = array.astype(dtype, copy=bool(copy))
    elif copy:
        array = array.copy()
    return array


@_method
@cython.binding(True)
def m___dlpack__(Tensor self, *, stream=None, max_version=None, dl_device=None, copy=None):
    if stream is not None and not isinstance(stream, int):
        raise said(TypeError, "[__dlpack__] a number of a stream, or None, was required: stream must be ``int`` or ``none``, got "
                        + type(stream).__name__ + "\nhint: memory of the CPU has no streams: leave it out")
    return to_dlpack(self.clone() if copy else self)


@_method
@cython.binding(True)
def m___dlpack_device__(Tensor self):
    return (1, 0)


@_method
@cython.binding(True)
def m_share_memory_(Tensor self):
    """Move the storage, with every tensor on it, to memory that other processes can map."""
    share_bytes(storage_of(self), self)
    return self


@_method
@cython.binding(True)
def m_pin_memory(Tensor self, device=None):
    """Kept for PyTorch's API: without an accelerator there is nothing to pin."""
    return self


@_method
@cython.binding(True)
def m__make_subclass_(cls, Tensor data, bint require_grad=False, **kwargs):
    if not isinstance(cls, type):
        raise said(TypeError, "[as_subclass] a class was required: cls must be a type (got %s)" % type(cls).__name__ + "\nhint: class Name(facula.Tensor) is one")
    if not issubclass(cls, Tensor):
        raise said(TypeError, "[as_subclass] a subclass of Tensor was required: Creating a Tensor subclass from a class that does not "
                              "inherit from Tensor is not possible. Make sure your class inherits from Tensor.\nhint: class Name(facula.Tensor) is one")
    cdef Tensor t = bare_tensor(cls)
    cdef Tensor a = alias(data)
    a.st.refs += 1
    if t.st != NULL: fk_storage_decref(t.st)
    t.st = a.st
    t.data_ = a.data_; t.dt = a.dt; set_rank(t, a.nd); t.dev = a.dev; t.numel_ = a.numel_
    memcpy(t.sh, a.sh, a.nd * 8)
    memcpy(t.sd, a.sd, a.nd * 8)
    t.keys |= a.keys & (K_STRIDED | K_META | K_FOREIGN)
    if require_grad:
        set_requires_grad(t, True)
    return t


@_method
@cython.binding(True)
def m__make_wrapper_subclass_(cls, size, strides=None, storage_offset=None, memory_format=None, dtype=None, layout=strided,
                              device=None, bint pin_memory=False, bint requires_grad=False, **kwargs):
    """A tensor without elements of its own that shows a shape, a dtype and a device; its class handles every operator."""
    cdef Tensor t
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t sd[MAX_DIMS]
    cdef int i, nd = parse_shape(size, sh), dev = device_number(device)
    cdef int64_t extent = 1
    if getattr(cls, "__torch_dispatch__", None) is None:
        raise said(RuntimeError, "[_make_wrapper_subclass] a class that defines __torch_dispatch__ was required: got " + cls.__name__ + "\nhint: define __torch_dispatch__ as a classmethod of the class")
    t = bare_tensor(cls)
    set_rank(t, nd); t.dev = dev
    t.dt = DEFAULT_DTYPE if dtype is None else as_dtype(dtype).index
    t.numel_ = shape_numel(nd, sh)
    if strides is None:
        for i in range(nd - 1, -1, -1):
            sd[i] = extent
            if sh[i] > 1: extent *= sh[i]
    elif parse_shape(strides, sd) != nd:
        raise said(RuntimeError, "[_make_wrapper_subclass] as many strides as sizes were required: got %s and %s" % (strides, size) + "\nhint: leave strides out for contiguous ones")
    else:
        for i in range(nd):
            extent += (sh[i] - 1) * sd[i]
    t.st = fk_storage_meta((extent if t.numel_ else 0) * ITEMSIZE[t.dt])
    if t.st == NULL:
        raise_memory(0)
    t.data_ = <char *>0 + (0 if storage_offset is None else <int64_t>storage_offset * ITEMSIZE[t.dt])
    t.keys |= K_META
    for i in range(nd):
        t.sh[i] = sh[i]; t.sd[i] = sd[i]
    compute_keys(t)
    if requires_grad:
        set_requires_grad(t, True)
    return t


@_method
@cython.binding(True)
def m_as_subclass(Tensor self, cls):
    """The same tensor, history included, as an instance of a subclass."""
    cdef Tensor t = m__make_subclass_(cls, self)
    cdef Node n
    if self.keys & K_GRAD and not (fk_tls_keys() & K_NOGRAD):
        n = new_node(None, clone_backward, 1, 1)
        n.label = "CloneBackward0"
        add_edge(n, 0, self)
        attach(t, n, 0)
    return t


@_method
@cython.binding(True)
def m___deepcopy__(Tensor self, memo):
    cdef Tensor t
    if id(self) in memo:
        return memo[id(self)]
    if self.fn_ is not None and self.keys & K_GRAD:
        raise said(RuntimeError, "[deepcopy] a leaf was required: Only Tensors created explicitly by the user (graph leaves) support the "
                           "deepcopy protocol at the moment.\nhint: deepcopy x.detach()")
    if self.keys & K_META:
        t = new_like(self, self.dt)
    else:
        s = storage_of(self).__deepcopy__(memo)
        t = Tensor.__new__(Tensor)
        t.dt = self.dt
        set_storage(t, s, self.storage_offset(), tuple(make_size(self.nd, self.sh)), self.stride())
    if self.__class__ is not Tensor:
        t = m__make_subclass_(self.__class__, t, False)
    if self.keys & K_GRAD: t.keys |= K_GRAD
    memo[id(self)] = t
    if self.grad_ is not None:
        t.grad_ = m___deepcopy__(self.grad_, memo)
    if self.dict_ != NULL:
        import copy
        for name, value in (<dict>self.dict_).items():
            setattr(t, name, copy.deepcopy(value, memo))
    return t


@_method
@cython.binding(True)
def m___copy__(Tensor self):
    """For `copy.copy`: another tensor on the same memory, with the same flags and attributes."""
    cdef Tensor t = alias(self)
    if self.__class__ is not Tensor:
        t = m__make_subclass_(self.__class__, t, False)
    if self.keys & K_GRAD: t.keys |= K_GRAD
    if self.dict_ != NULL:
        for name, value in (<dict>self.dict_).items():
            setattr(t, name, value)
    return t


@_method
@cython.binding(True)
def m___reduce_ex__(Tensor self, protocol):
    """Pickle by bytes, without history; storages shared between tensors stay shared only through `facula.save`."""
    if self.keys & K_OVERRIDE and "__reduce_ex__" not in self.__class__.__dict__ and hasattr(self.__class__, "__reduce__") and self.__class__.__reduce__ is not object.__reduce__:
        return self.__class__.__reduce__(self)
    cdef Tensor plain = contiguous_(detach_(self))
    data = b"" if plain.numel_ == 0 or self.keys & K_META else bytes(bytes_of(storage_of(copy_like(plain, plain))))
    state = dict(<dict>self.dict_) if self.dict_ != NULL else None
    return (_rebuild_tensor, (self.__class__, data[:self.numel_ * ITEMSIZE[self.dt]], (<dtype_>DTYPES[self.dt]).name, tuple(make_size(self.nd, self.sh)),
                              (self.keys & K_GRAD) != 0, str(DEVICES[self.dev]), state))

ctypedef dtype dtype_


def _rebuild_tensor(cls, data, name, shape, requires_grad, device="cpu", state=None):
    cdef Tensor t = empty(shape, dtype=DTYPE_BY_NAME[name], device=device if device == "meta" else "cpu")
    if data and not (t.keys & K_META):       # under a fake mode there is nothing to fill
        memcpy(t.data_, <const char *><bytes>data, len(data))
    if cls is not Tensor:
        t = m__make_subclass_(cls, t, requires_grad)
    elif requires_grad:
        set_requires_grad(t, True)
    if state:
        for key, value in state.items():
            setattr(t, key, value)
    return t


cdef void attach_methods() except *:
    for f in _METHODS:
        name = f.__name__[2:]
        f.__name__ = name
        f.__qualname__ = "Tensor." + name
        if name == "_make_subclass_":
            setattr(Tensor, "_make_subclass", staticmethod(f))
        elif name == "_make_wrapper_subclass_":
            setattr(Tensor, "_make_wrapper_subclass", staticmethod(f))
        elif name == "detach_in_place":
            setattr(Tensor, "detach_", f)
        elif name in ("__reduce_ex__", "__deepcopy__", "__array__", "__dlpack__", "__dlpack_device__"):
            set_type_attribute(Tensor, name, f)
        else:
            setattr(Tensor, name, f)
    setattr(Tensor, "item", METHOD_ITEM)
    setattr(Tensor, "tolist", METHOD_TOLIST)
    set_type_attribute(Tensor, "__torch_function__", classmethod(_default_torch_function))


cdef extern from *:
    """
    static int fk_type_set(PyObject *type, PyObject *name, PyObject *value) {
        int r = PyDict_SetItem(((PyTypeObject *)type)->tp_dict, name, value);
        PyType_Modified((PyTypeObject *)type);
        return r;
    }
    """
    int fk_type_set(object, object, object) except -1


def set_type_attribute(t, str name, value):
    """Set an attribute of a C type, special names included (no slot is changed)."""
    fk_type_set(t, name, value)


@cython.binding(True)
def _item(Tensor self):
    """The only element as a Python number."""
    if self.keys & (K_OVERRIDE | K_TRANSFORM) or fk_tls_keys() & (K_FUNCTION_MODE | K_INTERPRETER):
        r = python_method(_item, (self,))
        if r is not NotImplemented: return r
    if (self.keys | fk_tls_keys()) & K_DISPATCH:
        r = dispatch_method(_item, (self,), {}, K_DISPATCH)
        if r is not NotImplemented: return r
    return item(self)


@cython.binding(True)
def _tolist(Tensor self):
    """Nested Python lists of numbers; a number for 0-d."""
    if self.keys & K_TRANSFORM:
        r = python_method(_tolist, (self,))
        if r is not NotImplemented: return r
    return tolist(self)

METHOD_ITEM = _item
METHOD_TOLIST = _tolist
_item.__name__ = "item"
_tolist.__name__ = "tolist"
