// Functions that are no operators of the table: tensors from C++'s memory, modes, threads.
//
// The operators stand in the generated `functions.h`, which leaves out the names that stand here.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include <facula/convert.h>

namespace facula {
// A function of C++ that Python's collector calls when a tensor's memory is no longer needed.
inline Object on_release(std::function<void(void *)> deleter, void *data) {
  struct Kept {
    std::function<void(void *)> deleter;
    void *data;
  };
  auto *kept = new Kept{std::move(deleter), data};
  return checked(PyCapsule_New(kept, "facula.deleter", [](PyObject *capsule) {
    auto *kept = static_cast<Kept *>(PyCapsule_GetPointer(capsule, "facula.deleter"));
    kept->deleter(kept->data);
    delete kept;
  }));
}

inline Object whole_number(int64_t value) { return Arg(value).object(); }
}  // namespace facula

namespace at {

// A tensor on memory that somebody else owns; `deleter` is called when no tensor needs it.
inline Tensor from_blob(void *data, IntArrayRef sizes, IntArrayRef strides, const std::function<void(void *)> &deleter,
                        const TensorOptions &options = {}) {
  ::facula::Lock lock;
  ::facula::Object owner = deleter ? ::facula::on_release(deleter, data) : ::facula::Arg().object();
  ::facula::Object address = ::facula::checked(PyLong_FromVoidPtr(data));
  ::facula::Object steps = strides.data() == nullptr ? ::facula::Arg().object() : ::facula::Arg(strides).object();
  Tensor made(::facula::ask("from_memory", address.get(), ::facula::Arg(sizes).object().get(), steps.get(),
                            ::facula::Arg(ScalarType(options.dtype())).object().get(), owner.get()));
  if (options.requires_grad()) made.set_requires_grad(true);
  return made;
}
inline Tensor from_blob(void *data, IntArrayRef sizes, const std::function<void(void *)> &deleter,
                        const TensorOptions &options = {}) {
  return from_blob(data, sizes, IntArrayRef(), deleter, options);
}
inline Tensor from_blob(void *data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions &options = {}) {
  return from_blob(data, sizes, strides, nullptr, options);
}
inline Tensor from_blob(void *data, IntArrayRef sizes, const TensorOptions &options = {}) {
  return from_blob(data, sizes, IntArrayRef(), nullptr, options);
}

namespace detail {
inline Tensor made(const Arg &data, const TensorOptions &options) {
  static const ::facula::Word word("tensor");
  return Tensor(::facula::invoke_method(::facula::Runtime::get().bridge, word, data, options));
}
}  // namespace detail
// A tensor of a number, or of (nested) braces; vectors and ArrayRefs keep the dtype of their elements.
inline Tensor tensor(const Arg &data, const TensorOptions &options = {}) {
  ::facula::Lock lock;
  return detail::made(data, options);
}
template <class T>
Tensor tensor(ArrayRef<T> data, const TensorOptions &options = {}) {
  ::facula::Lock lock;
  return detail::made(Arg(data), options.has_dtype() || std::is_same_v<T, double> ? options : options.dtype<T>());
}
template <class T>
Tensor tensor(const std::vector<T> &data, const TensorOptions &options = {}) {
  return tensor(ArrayRef<T>(data), options);
}
inline Tensor scalar_tensor(const Scalar &value, const TensorOptions &options = {}) {
  return tensor(Arg(value), options.has_dtype() ? options : options.dtype(kFloat));
}
inline Tensor scalar_to_tensor(const Scalar &value) { return tensor(Arg(value), TensorOptions().dtype(value.type())); }

inline ScalarType promote_types(ScalarType a, ScalarType b) {
  ::facula::Lock lock;
  return ::facula::from_python<ScalarType>(
      ::facula::ask("promote_types", ::facula::Arg(a).object().get(), ::facula::Arg(b).object().get()).get());
}
inline ScalarType toOpMathType(ScalarType t) { return t == kHalf || t == kBFloat16 ? kFloat : t; }
template <class T>
using opmath_type = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
template <class T, bool on_cuda = false>
using acc_type = std::conditional_t<std::is_integral_v<T>, int64_t,
                                    std::conditional_t<std::is_same_v<T, float>, double, opmath_type<T>>>;

// C++'s forms of `unique`, which give all three results, empty where they were not asked for.
using Unique = std::tuple<Tensor, Tensor, Tensor>;
namespace detail {
inline Unique unique(const char *name, const Tensor &x, const Arg &dim, bool sorted, bool inverse, bool counts) {
  ::facula::Lock lock;
  return ::facula::from_python<Unique>(
      ::facula::ask(name, x.object(), dim.object().get(), Arg(sorted).object().get(), Arg(inverse).object().get(),
                    Arg(counts).object().get()).get());
}
}  // namespace detail
inline Unique _unique2(const Tensor &x, bool sorted = true, bool inverse = false, bool counts = false) {
  return detail::unique("unique", x, {}, sorted, inverse, counts);
}
inline std::tuple<Tensor, Tensor> _unique(const Tensor &x, bool sorted = true, bool inverse = false) {
  auto [values, places, counts] = _unique2(x, sorted, inverse);
  return {values, places};
}
inline Unique unique_dim(const Tensor &x, int64_t dim, bool sorted = true, bool inverse = false, bool counts = false) {
  return detail::unique("unique", x, dim, sorted, inverse, counts);
}
inline Unique unique_consecutive(const Tensor &x, bool inverse = false, bool counts = false, const Arg &dim = {}) {
  return detail::unique("unique_consecutive", x, dim, true, inverse, counts);
}
inline std::vector<Tensor> where(const Tensor &condition) {
  ::facula::Lock lock;
  return ::facula::from_python<std::vector<Tensor>>(::facula::ask("where", condition.object()).get());
}

inline void manual_seed(uint64_t seed) {
  ::facula::Lock lock;
  ::facula::ask("manual_seed", ::facula::to_python(seed).get());
}
template <class... Tensors>
std::vector<Tensor> to_list(const Tensors &...tensors) { return {tensors...}; }

// ---- whether calls are recorded

class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) : before_(is_enabled()) { set_enabled(enabled); }
  ~AutoGradMode() { set_enabled(before_); }
  AutoGradMode(const AutoGradMode &) = delete;
  AutoGradMode &operator=(const AutoGradMode &) = delete;
  static bool is_enabled() {
    ::facula::Lock lock;
    return ::facula::from_python<bool>(::facula::ask("is_grad_enabled").get());
  }
  static void set_enabled(bool enabled) {
    ::facula::Lock lock;
    ::facula::ask("set_grad_enabled", enabled ? Py_True : Py_False);
  }

 private:
  bool before_;
};
using GradMode = AutoGradMode;
struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};
// below the key under which calls are recorded
using AutoDispatchBelowADInplaceOrView = NoGradGuard;
using AutoDispatchBelowAutograd = NoGradGuard;
using AutoNonVariableTypeMode = NoGradGuard;
struct InferenceMode : AutoGradMode {
  explicit InferenceMode(bool enabled = true) : AutoGradMode(!enabled && is_enabled()) {}
};

// ---- threads

inline int get_num_threads() {
  ::facula::Lock lock;
  return ::facula::from_python<int>(::facula::ask("get_num_threads").get());
}
inline void set_num_threads(int count) {
  ::facula::Lock lock;
  ::facula::ask("set_num_threads", ::facula::to_python(count).get());
}
namespace detail {
inline thread_local int thread_number = 0;
inline thread_local bool in_parallel = false;
}  // namespace detail
inline int get_thread_num() { return detail::thread_number; }
inline bool in_parallel_region() { return detail::in_parallel; }
inline int64_t divup(int64_t a, int64_t b) { return (a + b - 1) / b; }

// f(begin, end) on pieces of a range, on several threads where the range is longer than the grain. The interpreter's
// lock is given up meanwhile: a body may touch tensors, at the price of taking it.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F &f) {
  if (begin >= end) return;
  int64_t pieces = detail::in_parallel ? 1 : divup(end - begin, std::max<int64_t>(grain, 1));
  if (pieces > 1) pieces = std::min<int64_t>(pieces, get_num_threads());
  if (pieces <= 1) return f(begin, end);
  int64_t length = divup(end - begin, pieces);
  std::exception_ptr failure;
  std::mutex mutex;
  auto work = [&](int64_t piece) {
    detail::thread_number = static_cast<int>(piece);
    detail::in_parallel = true;
    try {
      int64_t from = begin + piece * length;
      if (from < end) f(from, std::min(end, from + length));
    } catch (...) {
      std::lock_guard<std::mutex> held(mutex);
      if (!failure) failure = std::current_exception();
    }
    detail::thread_number = 0;
    detail::in_parallel = false;
  };
  PyThreadState *given_up = PyGILState_Check() ? PyEval_SaveThread() : nullptr;
  std::vector<std::thread> threads;
  try {
    for (int64_t piece = 1; piece < pieces; piece++) threads.emplace_back(work, piece);
  } catch (const std::system_error &) {
    // no more threads are to be had: this one does what is left
    for (auto piece = static_cast<int64_t>(threads.size()) + 1; piece < pieces; piece++) work(piece);
  }
  work(0);
  for (auto &thread : threads) thread.join();
  if (given_up != nullptr) PyEval_RestoreThread(given_up);
  if (failure) std::rethrow_exception(failure);
}
template <class T, class F, class Join>
T parallel_reduce(int64_t begin, int64_t end, int64_t grain, const T &identity, const F &f, const Join &join) {
  std::mutex mutex;
  std::map<int64_t, T> parts;
  parallel_for(begin, end, grain, [&](int64_t from, int64_t to) {
    T part = f(from, to, identity);
    std::lock_guard<std::mutex> held(mutex);
    parts.emplace(from, std::move(part));
  });
  T all = identity;
  for (const auto &[from, part] : parts) all = join(all, part);
  return all;
}

}  // namespace at

#include <facula/generated/functions.h>

namespace c10 {
using at::InferenceMode;
}
namespace torch {
using at::NoGradGuard;
namespace indexing = at::indexing;
namespace cuda {
inline bool is_available() { return false; }
inline int device_count() { return 0; }
}  // namespace cuda
}  // namespace torch
