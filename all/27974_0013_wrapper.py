def call(args):
    (
        buffer0,
        buffer1,
    ) = expected(args)
    arena = empty_bytes(64)
    buffer4 = empty_strided((64, 10), (10, 1), dtype=dtype0)
    run1(
        (
            buffer0,
            buffer4,
        )
    )
    buffer5 = aten__nll_rows_default_2(buffer4, buffer1, -100)
    buffer7 = empty_strided((), (), dtype=dtype3)
    buffer8 = empty_strided((), (), dtype=dtype0)
    run4(
        (
            buffer5,
            arena,
            buffer1,
            buffer7,
            buffer8,
        )
    )
    del buffer5
    return (
        buffer8,
        buffer1,
        buffer4,
        buffer7,
    )
