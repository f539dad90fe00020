/* The C interface of packaged models: open, describe, run, swap constants.
 *
 * Takes: a package (`facula._inductor.aoti_compile_and_package`, `facula.mobile.export`), by its path or in memory.
 * Gives: functions that need neither Python nor a compiler.
 * Keeps true: a function that can fail takes `error` and `room`, gives a negative number or NULL, and leaves one line of
 * text there; nothing is run of a package whose digests are not those of its bytes; any number of threads may run one
 * model at a time; names and numbers in this file only grow with FACULA_MODEL_ABI. */
#ifndef FACULA_MODEL_H
#define FACULA_MODEL_H
#include <stddef.h>
#include <stdint.h>

#define FACULA_MODEL_ABI 1
#define FACULA_MODEL_DIMS 16
#define FACULA_MODEL_ROOM 128
#define FACULA_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* the order of these numbers is that of `enum fk_dtype` in facula_abi.h: 0 float32, 1 float64, 2 float16, 3 bfloat16,
 * 4 int64, 5 int32, 6 int16, 7 int8, 8 uint8, 9 bool, 10 complex64, 11 complex128, 13 uint16, 14 uint32, 15 uint64 */
typedef struct {
    void *data; /* contiguous elements; NULL in an output: memory is made, which `facula_model_release` frees */
    int32_t dtype, ndim;
    int64_t shape[FACULA_MODEL_DIMS];
} facula_tensor;

typedef struct {
    const char *name; /* lives as long as the model */
    int32_t dtype, ndim;
    int64_t least[FACULA_MODEL_DIMS], most[FACULA_MODEL_DIMS]; /* equal where a size is fixed */
} facula_description;

typedef struct facula_model facula_model;

/* the number FACULA_MODEL_ABI of the library that is loaded */
FACULA_API int facula_model_abi(void);

/* The model in a file, or in memory that stays as it is until `facula_model_close`. `kernels`: the folder of kernel
 * libraries for packages without native code of their own; NULL: the folder of this library. */
FACULA_API facula_model *facula_model_open(const char *path, const char *kernels, char *error, size_t room);
FACULA_API facula_model *facula_model_open_memory(
    const void *bytes, size_t size, const char *kernels, char *error, size_t room);
/* the model that is linked into this library (`facula._export.aot_compile`) */
FACULA_API facula_model *facula_model_open_embedded(char *error, size_t room);
FACULA_API void facula_model_close(facula_model *model);

FACULA_API int facula_model_inputs(const facula_model *model);
FACULA_API int facula_model_outputs(const facula_model *model);
FACULA_API int facula_model_constants(const facula_model *model);
FACULA_API int facula_model_describe_input(const facula_model *model, int number, facula_description *out);
FACULA_API int facula_model_describe_constant(const facula_model *model, int number, facula_description *out);
/* which native code was chosen: v2, v3, v4, neon */
FACULA_API const char *facula_model_variant(const facula_model *model);

/* The sizes and dtypes of the outputs for inputs of these sizes; no data is read. */
FACULA_API int facula_model_sizes(facula_model *model, const facula_tensor *inputs, int ninputs, facula_tensor *outputs,
    int noutputs, char *error, size_t room);

/* Run. An output with data has room for its elements; one without gets memory of its own. */
FACULA_API int facula_model_run(facula_model *model, const facula_tensor *inputs, int ninputs, facula_tensor *outputs,
    int noutputs, char *error, size_t room);
FACULA_API void facula_model_release(facula_tensor *output);

/* Other elements for a constant, copied; waits for runs that have begun, and counts for all that begin later. */
FACULA_API int facula_model_update_constant(
    facula_model *model, const char *name, const facula_tensor *value, char *error, size_t room);

/* how many threads a run uses at most; 0: as many as there are processors */
FACULA_API void facula_model_set_threads(int threads);

/* the digest of weights, as packages hold it: two words */
FACULA_API void facula_digest(const void *bytes, size_t size, uint64_t digest[2]);

#ifdef __cplusplus
}
#endif
#endif
