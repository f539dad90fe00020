# The switches of the calling thread: gradient, inference and view modes, threads, anomaly mode.
#
# Keeps true: a switch is read and set for the calling thread only, and what sets it gives back what it was.

def is_grad_enabled():
    """Whether operations are recorded in this thread.

    Example:
        >>> with facula.no_grad():
        ...     facula.is_grad_enabled()
        False
    """
    return not (fk_tls_keys() & K_NOGRAD)


def set_grad_enabled(bint mode):
    """Switch recording on or off for this thread; gives what it was."""
    cdef uint32_t k = fk_tls_keys()
    fk_tls_set(k & ~<uint32_t>K_NOGRAD if mode else k | K_NOGRAD)
    return not (k & K_NOGRAD)


def is_inference_mode_enabled():
    """Whether new tensors are inference tensors.

    Example:
        >>> with facula.inference_mode():
        ...     facula.is_inference_mode_enabled()
        True
    """
    return (fk_tls_keys() & K_INFERENCE) != 0


def set_inference_mode(bint mode):
    """Switch inference mode (which also stops recording); gives what it was."""
    cdef uint32_t k = fk_tls_keys()
    fk_tls_set(k | K_INFERENCE | K_NOGRAD if mode else k & ~<uint32_t>K_INFERENCE)
    return (k & K_INFERENCE) != 0


def rounds_steps():
    """Whether this thread computes gradients of gradients, whose formulas round 16-bit floats after each step."""
    return fk_tls_keys() & K_STEPS != 0


def thread_keys():
    """The routing bits of this thread."""
    return fk_tls_keys()


def set_thread_keys(uint32_t keys):
    """Set the routing bits of this thread: for context managers that restore them."""
    fk_tls_set(keys)


def push_function_mode(mode):
    """Activate a TorchFunctionMode."""
    FUNCTION_MODES.append(mode)
    fk_tls_set(fk_tls_keys() | K_FUNCTION_MODE)


def pop_function_mode():
    """Deactivate the innermost TorchFunctionMode."""
    mode = FUNCTION_MODES.pop()
    if not FUNCTION_MODES:
        fk_tls_set(fk_tls_keys() & ~<uint32_t>K_FUNCTION_MODE)
    return mode


def push_dispatch_mode(mode):
    """Activate a TorchDispatchMode."""
    expect_listener(mode)
    DISPATCH_MODES.append(mode)
    fk_tls_set(fk_tls_keys() | K_DISPATCH)


def pop_dispatch_mode():
    """Deactivate the innermost TorchDispatchMode."""
    mode = DISPATCH_MODES.pop()
    if not DISPATCH_MODES:
        fk_tls_set(fk_tls_keys() & ~<uint32_t>K_DISPATCH)
    return mode


def suspend_dispatch():
    """Ask no dispatch mode from now on; gives the thread's keys as they were, for `set_thread_keys`."""
    cdef uint32_t k = fk_tls_keys()
    fk_tls_set(k & ~<uint32_t>K_DISPATCH)
    return k


def set_autocast(bint mode):
    """Route operators with an autocast policy of this thread to `AUTOCAST[0]`; gives what was set before."""
    cdef uint32_t k = fk_tls_keys()
    fk_tls_set(k | K_AUTOCAST if mode else k & ~<uint32_t>K_AUTOCAST)
    return (k & K_AUTOCAST) != 0


def push_interpreter(interpreter):
    """Put a function transform on top of the interpreter stack: it has `process(function, args, kwargs)`."""
    interpreter_stack().append(interpreter)
    fk_tls_set(fk_tls_keys() | K_INTERPRETER)


def pop_interpreter():
    """Take the innermost function transform off."""
    cdef list stack = interpreter_stack()
    interpreter = stack.pop()
    if not stack:
        fk_tls_set(fk_tls_keys() & ~<uint32_t>K_INTERPRETER)
    return interpreter


def push_saved_tensor_hooks(pack, unpack):
    """Pack every tensor that is saved from now on."""
    SAVED_HOOKS.append((pack, unpack))
    fk_tls_hooks_set(len(SAVED_HOOKS))


def pop_saved_tensor_hooks():
    """Take the innermost pair of hooks off."""
    SAVED_HOOKS.pop()
    fk_tls_hooks_set(len(SAVED_HOOKS))


def set_saved_tensor_hooks_disabled(message):
    """Make saving under hooks an error with this message; None allows it again. Gives the previous message."""
    previous = DISABLED_HOOKS[0]
    DISABLED_HOOKS[0] = message
    return previous

DISABLED_HOOKS = [None]


def set_anomaly(bint enabled, bint check_nan=True):
    """Record forward traces and check gradients for NaN."""
    ANOMALY[0] = enabled
    ANOMALY[1] = check_nan


def is_anomaly_enabled():
    """Whether backward passes look for NaN, and their errors name the forward line.

    Example:
        >>> facula.is_anomaly_enabled()
        False
    """
    return ANOMALY[0]


def is_anomaly_check_nan_enabled():
    """Whether NaN in a backward pass is an error while anomalies are looked for.

    Example:
        >>> facula.is_anomaly_check_nan_enabled()
        True
    """
    return ANOMALY[1]


_MULTITHREADING = [True]


def set_multithreading_enabled(bint mode):
    """Kept for PyTorch's API: the engine runs in the calling thread, kernels use the pool."""
    previous = _MULTITHREADING[0]
    _MULTITHREADING[0] = mode
    return previous


def is_multithreading_enabled():
    return _MULTITHREADING[0]
