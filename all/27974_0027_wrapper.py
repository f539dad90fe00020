def call(args):
    (
        buffer0,
        buffer1,
    ) = expected(args)
    buffer4 = empty_strided((64, 10), (10, 1), dtype=dtype0)
    run1(
        (
            buffer0,
            buffer4,
        )
    )
    buffer5 = aten_binary_cross_entropy_elements_default_2(buffer4, buffer1)
    del buffer4
    buffer6 = empty_strided((), (), dtype=dtype0)
    run3(
        (
            buffer5,
            buffer6,
        )
    )
    del buffer5
    return (
        buffer6,
        buffer0,
        buffer1,
    )
