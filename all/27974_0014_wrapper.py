def call(args):
    (
        buffer0,
        buffer1,
        buffer2,
        buffer3,
    ) = expected(args)
    args.clear()
    buffer4 = empty_strided((64, 10), (10, 1), dtype=dtype0)
    buffer5 = empty_strided((64,), (1,), dtype=dtype1)
    buffer6 = empty_strided((64,), (1,), dtype=dtype0)
    run2(
        (
            buffer4,
            buffer0,
            buffer5,
            buffer6,
            buffer3,
            buffer2,
        )
    )
    del buffer0, buffer2, buffer3
    buffer7 = aten_scatter_src_3(
        buffer4,
        1,
        as_strided(buffer5, (64, 1), (1, 1), buffer5.storage_offset()),
        as_strided(buffer6, (64, 1), (1, 1), buffer6.storage_offset()),
    )
    del buffer4, buffer5, buffer6
    buffer9 = empty_strided((64, 10), (10, 1), dtype=dtype0)
    run4(
        (
            buffer7,
            buffer1,
            buffer9,
        )
    )
    del buffer1, buffer7
    return (buffer9,)
