"""Images between tensors and the tile: C text of the changes of layout.

Takes a kind and a storage dtype; gives `<dtype>_image`, which brings an image with channels first
or last to words with channels last, and `<dtype>_channels_first`, which brings results back. Keeps
true: channels of a group are padded with zeros to whole words.
"""

from facula.codegen.c.kernels.gemm.tile_epilogue import RESULTS
from facula.codegen.c.kernels.gemm.tile_kind import Kind, fill
from facula.codegen.c.kernels.gemm.tile_pack import storages

__all__ = ["layout_text"]

COMMON = r"""
#define IMAGE_PIXELS 256 /* pixels of a unit of work */
#define FEW_CHANNELS 8
typedef struct image_job {
    const char *from;
    char *to;
    long n, groups, channels, words, pixels; /* of a group: channels, words */
    int channels_last;
    epilogue epilogue;
    const char *bias; /* of results that go to channels first */
    void (*run)(const struct image_job *, long image, long first, long last);
} image_job;

static void image_unit(void *context, long unit, char *scratch)
{
    const image_job *j = context;
    const long pieces = CEIL(j->pixels, IMAGE_PIXELS), piece = unit % pieces;
    j->run(j, unit / pieces, piece * IMAGE_PIXELS, MIN(j->pixels, (piece + 1) * IMAGE_PIXELS));
}

NOINLINE int run_images(image_job *j, const fk_runtime *rt)
{
    const long units = j->n * CEIL(j->pixels, IMAGE_PIXELS);
    return launch(image_unit, j, units, 0, units > 1 && j->n * j->pixels * j->groups * j->words > 20000, rt);
}
"""

TO_WORDS = r"""
/* pixels [first, last) of a group of channels-first image to [pixel][words] */
NOINLINE void $S_group_words(const $E *from, long plane, long channels, long words, long first,
                             long last, word *to, long to_stride)
{
    for (long c = 0; c < words; c += VECTOR) {
        const long width = MIN(VECTOR, words - c);
        for (long p = first; p < last; p += VECTOR) {
            const long height = MIN(VECTOR, last - p);
            vec m[VECTOR];
            for (long i = 0; i < width; i++) {
                const $E *source = from + (c + i) * GROUP * plane + p;
                const long count = MIN(GROUP, channels - (c + i) * GROUP);
                if ($RAW && GROUP == 1 && height == VECTOR)
                    m[i] = *(const vec *)source;
                else if (height == VECTOR && count == GROUP)
                    for (long k = 0; k < VECTOR; k++)
                        ((word *)&m[i])[k] = $S_word(source + k, plane, GROUP);
                else
                    for (long k = 0; k < height; k++)
                        ((word *)&m[i])[k] = $S_word(source + k, plane, count);
            }
            if (width < 5) {
                for (long k = 0; k < height; k++)
                    for (long i = 0; i < width; i++)
                        to[(p + k) * to_stride + c + i] = ((word *)&m[i])[k];
                continue;
            }
            for (long i = width; i < VECTOR; i++) m[i] = (vec){0};
            transpose(m);
            for (long k = 0; k < height; k++) {
                word *row = to + (p + k) * to_stride + c;
                if (width == VECTOR)
                    *(vec *)row = m[k];
                else
                    for (long i = 0; i < width; i++) row[i] = ((word *)&m[k])[i];
            }
        }
    }
}

/* a pixel of few channels, without the calls that pay for long rows */
INLINE void $S_few_words(const $E *from, long channels, word *to)
{
    for (; channels >= GROUP; channels -= GROUP, from += GROUP) *to++ = $S_word(from, 1, GROUP);
    if (channels) *to = $S_word(from, 1, channels);
}

static void $S_image_run(const image_job *j, long image, long first, long last)
{
    const long stride = j->groups * j->words, all = j->groups * j->channels;
    word *to = (word *)j->to + image * j->pixels * stride;
    const $E *from = (const $E *)j->from + image * j->pixels * all;
    for (long g = 0; g < j->groups; g++)
        if (j->channels_last && j->channels <= FEW_CHANNELS)
            for (long p = first; p < last; p++)
                $S_few_words(from + p * all + g * j->channels, j->channels,
                             to + p * stride + g * j->words);
        else if (j->channels_last)
            for (long p = first; p < last; p++)
                $S_copy_row((const char *)(from + p * all + g * j->channels), 1, j->channels,
                            to + p * stride + g * j->words);
        else
            $S_group_words(from + g * j->channels * j->pixels, j->pixels, j->channels, j->words,
                           first, last, to + g * j->words, stride);
}

NOINLINE int $S_image(const char *from, word *to, long n, long groups, long channels, long pixels,
                      int channels_last, const fk_runtime *rt)
{
    const long whole = GROUP == 1 || channels % GROUP == 0; /* then groups need no padding */
    image_job j = {from, (char *)to, n, whole ? 1 : groups, whole ? groups * channels : channels, 0,
                   pixels, channels_last, {0}, NULL, $S_image_run};
    j.words = CEIL(j.channels, GROUP);
    return run_images(&j, rt);
}
"""

FROM_SUMS = r"""
static void $S_channels_first_run(const image_job *j, long image, long first, long last)
{
    const acc_t *from = (const acc_t *)j->from + image * j->pixels * j->channels;
    $E *to = ($E *)j->to + image * j->pixels * j->channels;
    const $E *bias = (const $E *)j->bias;
    for (long c = 0; c < j->channels; c += VECTOR)
        for (long p = first; p < last; p += VECTOR) {
            const long width = MIN(VECTOR, j->channels - c), height = MIN(VECTOR, last - p);
            vec m[VECTOR];
            for (long k = 0; k < VECTOR; k++) m[k] = (vec){0};
            for (long k = 0; k < height; k++)
                if (width == VECTOR)
                    m[k] = *(const vec *)(from + (p + k) * j->channels + c);
                else
                    memcpy(&m[k], from + (p + k) * j->channels + c, width * sizeof(acc_t));
            transpose(m);
            for (long i = 0; i < width; i++) {
                $E *row = to + (c + i) * j->pixels + p;
                if (bias) {
                    const $E y = bias[c + i];
                    *(acc_vec *)&m[i] += (acc_t)($LOAD);
                }
                if (j->epilogue.map) map_row(&j->epilogue, (acc_t *)&m[i], VECTOR);
                if (height == VECTOR)
                    for (long k = 0; k < VECTOR; k++) {
                        const acc_t x = ((acc_t *)&m[i])[k];
                        row[k] = $STORE;
                    }
                else
                    for (long k = 0; k < height; k++) {
                        const acc_t x = ((acc_t *)&m[i])[k];
                        row[k] = $STORE;
                    }
            }
        }
}

/* [n][pixels][channels] of sums to map(sums + bias) in [n][channels][pixels] */
NOINLINE int $S_channels_first(const acc_t *from, char *to, long n, long channels, long pixels,
                               const char *bias, epilogue epilogue, const fk_runtime *rt)
{
    image_job j = {(const char *)from, to, n, 1, channels, channels, pixels, 0, epilogue, bias,
                   $S_channels_first_run};
    return run_images(&j, rt);
}
"""


def convolved(kind: Kind) -> list[str]:
    """Storage dtypes of images that a kind reads."""
    return [s.name for s in storages(kind)]


def layout_text(kind: Kind) -> str:
    """Layout changes for every storage dtype of a kind."""
    parts = [COMMON]
    for storage in storages(kind):
        name = storage.name
        raw = "1" if storage.raw else "0"
        parts.append(fill(TO_WORDS, S=name, E=storage.element, RAW=raw))
        parts.append(
            fill(
                FROM_SUMS, S=name, E=storage.element, LOAD=RESULTS[name][1], STORE=RESULTS[name][2]
            )
        )
    return "\n".join(parts)
