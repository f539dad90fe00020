"""Random numbers that cannot be foretold, and AES-128 on tensors: what torchcsprng offers.

Takes: a device of the system, or a seed; keys of 16 bytes. Gives: generators that every random operator takes
(`generator=`), and the bytes of tensors encrypted and decrypted.
Keeps true: the state of a cryptographic generator is given to nobody: not as a tensor, a pickle, a copy or a message;
a process that forks leaves its child a key of the system's own; copies of keys are cleared behind each call. Words
come from AES of a counter (`core/include/fk_aes.h`), by the processor's instructions or without them, the same ones.
"""

from __future__ import annotations

import secrets
from typing import Any

from facula import core
from facula.core.errors import fail

__all__ = [
    "create_mt19937_generator", "create_random_device_generator", "decrypt", "encrypt",
    "supports_cpu", "supports_cuda",
]  # fmt: skip

_DEVICES = (None, "default", "getrandom", "/dev/urandom", "/dev/random")


def supports_cpu() -> bool:
    """Whether tensors in main memory are filled and encrypted."""
    return True


def supports_cuda() -> bool:
    """Whether tensors on graphics processors are."""
    return False


def create_random_device_generator(token: str | None = None) -> core.Generator:
    """A generator that draws from AES of a counter, under a key from the system.

    Args:
        token: `/dev/urandom` or `/dev/random`, read for the key; None leaves it to the system.
    """
    if token not in _DEVICES:
        required = "a random device was required ('/dev/urandom' or '/dev/random')"
        fail(
            RuntimeError,
            "create_random_device_generator",
            required,
            repr(token),
            hint="or none at all",
        )
    return core.Generator().encipher(_key(token))


def _key(token: str | None) -> bytes:
    if token is None or not token.startswith("/"):
        return secrets.token_bytes(16)
    try:
        with open(token, "rb", buffering=0) as device:
            key = b""
            while len(key) < 16:
                key += device.read(16 - len(key)) or secrets.token_bytes(16 - len(key))
    except OSError as error:
        required, hint = "a device that can be read was required", "leave the token out"
        fail(
            RuntimeError,
            "create_random_device_generator",
            required,
            f"{token}: {error.strerror}",
            hint=hint,
        )
    return key


def create_mt19937_generator(seed: int | None = None) -> core.Generator:
    """A Mersenne twister: numbers that a seed decides, and that can be foretold; not for secrets."""
    made = core.Generator(stream="torch")
    if seed is None:
        made.seed()
        return made
    return made.manual_seed(seed)


def encrypt(
    input: core.Tensor,
    output: core.Tensor,
    key: core.Tensor,
    cipher: str,
    mode: str,
    *,
    counter: bytes | None = None,
) -> Any:
    """Write the encrypted bytes of a tensor into another, whose size in bytes is that of the input, in whole blocks.

    Args:
        key: 16 bytes, as a uint8 tensor.
        cipher: "aes128".
        mode: "ecb": blocks each on its own, the last filled up with zeros; "ctr": joined with encrypted counters.
        counter: the first counter of "ctr", 16 bytes whose last is the lowest (as in NIST's and other
            libraries' texts). Without it counters begin at 0, with the first byte lowest.
    """
    return _crypt("encrypt", input, output, key, cipher, mode, counter)


def decrypt(
    input: core.Tensor,
    output: core.Tensor,
    key: core.Tensor,
    cipher: str,
    mode: str,
    *,
    counter: bytes | None = None,
) -> Any:
    """Write the decrypted bytes of a tensor into another; see `encrypt`."""
    return _crypt("decrypt", input, output, key, cipher, mode, counter)


def _bytes_of(tensor: core.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _check(
    op: str,
    input: core.Tensor,
    output: object,
    key: core.Tensor,
    cipher: str,
    mode: str,
    counter: Any,
) -> None:
    for name, x in (("input", input), ("output", output), ("key", key)):
        if not isinstance(x, core.Tensor) or x.device.type != "cpu":
            got = x.device if isinstance(x, core.Tensor) else type(x).__name__
            required = f"{name} in main memory, as a tensor, was required"
            fail(RuntimeError, op, required, got, hint="x.cpu() brings one there")
    if _bytes_of(key) != 16:
        hint = "a key of AES-128 has 128 bits"
        fail(
            RuntimeError,
            op,
            "key tensor of 16 bytes was required",
            f"{_bytes_of(key)} bytes",
            hint=hint,
        )
    if cipher != "aes128":
        fail(
            RuntimeError,
            op,
            "the cipher 'aes128' was required",
            repr(cipher),
            hint="there is one cipher",
        )
    if mode not in ("ecb", "ctr"):
        fail(
            RuntimeError,
            op,
            "the mode 'ecb' or 'ctr' was required",
            repr(mode),
            hint="'ctr' hides repeats",
        )
    if counter is None:
        return
    right = isinstance(counter, (bytes, bytearray, memoryview))
    if not right or mode != "ctr" or len(bytes(counter)) != 16:
        required = "a counter of 16 bytes, in the mode 'ctr', was required"
        got = f"{len(bytes(counter))} bytes" if right else type(counter).__name__
        fail(RuntimeError, op, required, f"{got}, {mode!r}", hint="leave it out to begin at 0")


def _crypt(
    op: str,
    input: core.Tensor,
    output: core.Tensor,
    key: core.Tensor,
    cipher: str,
    mode: str,
    counter: bytes | None,
) -> Any:
    _check(op, input, output, key, cipher, mode, counter)
    given, wanted = _bytes_of(input), _bytes_of(output)
    short, long = (given, wanted) if op == "encrypt" else (wanted, given)
    whole = (short + 15) // 16 * 16
    if long != whole and not (mode == "ctr" and long == short):
        required = f"tensors that fit were required: {whole} encrypted bytes for {short}"
        hint = "encrypted data has whole blocks of 16 bytes"
        fail(RuntimeError, op, required, f"input of {given} bytes, output of {wanted}", hint=hint)
    size = max(given, wanted)
    source, target = core.Tensor.new_zeros(input, (size,), dtype=core.uint8), None
    plain = input.detach().contiguous().reshape((-1,))
    source[:given].copy_(plain.view(core.uint8))
    target = source.new_empty((size,))
    word = key.detach().clone().contiguous()
    count = mode == "ctr"
    try:
        core.aes_crypt(target, source, word, op == "decrypt" and not count, counter, count)
    finally:
        word.zero_()
    result = target[:wanted].view(output.dtype).reshape(output.shape)
    output.detach().copy_(result)
    return output
