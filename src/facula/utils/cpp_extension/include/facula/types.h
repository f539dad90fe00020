// Values that are no tensors: dtypes, devices, numbers, sizes, options.
//
// Gives the enumerations with PyTorch's codes, the C++ type of each dtype, Device, ArrayRef, Scalar, TensorOptions.
// Keeps true: nothing here touches Python.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <facula/errors.h>

namespace c10 {

using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::string_view;
template <class T>
using complex = std::complex<T>;

// ---- numbers of 16 bits

// The bits of a float, rounded to even, with fewer bits: of the IEEE's half precision, or the upper half of a float.
namespace detail {
inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
inline float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
inline uint16_t to_bfloat16(float x) {
  uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float from_bfloat16(uint16_t x) { return float_of(static_cast<uint32_t>(x) << 16); }
inline uint16_t to_half(float x) {
  uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (rest >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  // adding this power of two leaves a subnormal half's bits in the lowest ones, rounded by the processor
  if (rest < 0x38800000) return static_cast<uint16_t>(sign | (bits_of(float_of(rest) + 0.5f) - 0x3f000000));
  rest += 0xfff + ((rest >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rest - 0x38000000) >> 13));
}
inline float from_half(uint16_t x) {
  uint32_t sign = static_cast<uint32_t>(x & 0x8000) << 16, rest = x & 0x7fff;
  if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // 2^112: halves, subnormal ones too, are floats with another bias of the exponent
  float value = float_of(rest << 13) * 5.192296858534828e33f;
  return float_of(sign | bits_of(value));
}
}  // namespace detail

#define FACULA_16_BITS(Name, to, from)                                                      \
  struct Name {                                                                             \
    struct from_bits_t {};                                                                  \
    static constexpr from_bits_t from_bits() { return {}; }                                 \
    uint16_t x = 0;                                                                         \
    Name() = default;                                                                       \
    Name(uint16_t bits, from_bits_t) : x(bits) {}                                           \
    Name(float value) : x(detail::to(value)) {}                                             \
    operator float() const { return detail::from(x); }                                      \
    Name &operator+=(float other) { return *this = Name(float(*this) + other); }            \
    Name &operator-=(float other) { return *this = Name(float(*this) - other); }            \
    Name &operator*=(float other) { return *this = Name(float(*this) * other); }            \
    Name &operator/=(float other) { return *this = Name(float(*this) / other); }            \
  };                                                                                        \
  inline std::ostream &operator<<(std::ostream &out, Name value) { return out << float(value); }
FACULA_16_BITS(Half, to_half, from_half)
FACULA_16_BITS(BFloat16, to_bfloat16, from_bfloat16)
#undef FACULA_16_BITS

// ---- dtypes: the C++ type, PyTorch's name and code, the name in Python

#define FACULA_DTYPES(_)                          \
  _(uint8_t, Byte, 0, "uint8")                    \
  _(int8_t, Char, 1, "int8")                      \
  _(int16_t, Short, 2, "int16")                   \
  _(int32_t, Int, 3, "int32")                     \
  _(int64_t, Long, 4, "int64")                    \
  _(::c10::Half, Half, 5, "float16")              \
  _(float, Float, 6, "float32")                   \
  _(double, Double, 7, "float64")                 \
  _(std::complex<float>, ComplexFloat, 9, "complex64")    \
  _(std::complex<double>, ComplexDouble, 10, "complex128") \
  _(bool, Bool, 11, "bool")                       \
  _(::c10::BFloat16, BFloat16, 15, "bfloat16")    \
  _(uint16_t, UInt16, 27, "uint16")               \
  _(uint32_t, UInt32, 28, "uint32")               \
  _(uint64_t, UInt64, 29, "uint64")

enum class ScalarType : int8_t {
#define FACULA_CODE(type, name, code, python) name = code,
  FACULA_DTYPES(FACULA_CODE)
#undef FACULA_CODE
  ComplexHalf = 8, Float8_e5m2 = 23, Float8_e4m3fn = 24, Undefined = 47
};

namespace impl {
template <class T>
struct CodeOf;
template <ScalarType code>
struct TypeOf;
#define FACULA_TRAITS(type, name, code, python)                                           \
  template <>                                                                             \
  struct CodeOf<type> {                                                                   \
    static constexpr ScalarType value = ScalarType::name;                                 \
  };                                                                                      \
  template <>                                                                             \
  struct TypeOf<ScalarType::name> {                                                       \
    using type_ = type;                                                                   \
  };
FACULA_DTYPES(FACULA_TRAITS)
#undef FACULA_TRAITS
template <ScalarType code>
using ScalarTypeToCPPTypeT = typename TypeOf<code>::type_;
template <ScalarType code>
struct ScalarTypeToCPPType {
  using type = ScalarTypeToCPPTypeT<code>;
};
}  // namespace impl

template <class T>
struct CppTypeToScalarType : std::integral_constant<ScalarType, impl::CodeOf<T>::value> {};

inline const char *toString(ScalarType dtype) {
  switch (dtype) {
#define FACULA_NAME(type, name, code, python) \
  case ScalarType::name: return #name;
    FACULA_DTYPES(FACULA_NAME)
#undef FACULA_NAME
    case ScalarType::ComplexHalf: return "ComplexHalf";
    case ScalarType::Float8_e5m2: return "Float8_e5m2";
    case ScalarType::Float8_e4m3fn: return "Float8_e4m3fn";
    default: return "Undefined";
  }
}
inline std::ostream &operator<<(std::ostream &out, ScalarType dtype) { return out << toString(dtype); }

inline size_t elementSize(ScalarType dtype) {
  switch (dtype) {
#define FACULA_SIZE(type, name, code, python) \
  case ScalarType::name: return sizeof(type);
    FACULA_DTYPES(FACULA_SIZE)
#undef FACULA_SIZE
    case ScalarType::ComplexHalf: return 4;
    default: return 1;
  }
}
inline bool isComplexType(ScalarType t) {
  return t == ScalarType::ComplexHalf || t == ScalarType::ComplexFloat || t == ScalarType::ComplexDouble;
}
inline bool isFloatingType(ScalarType t) {
  return t == ScalarType::Half || t == ScalarType::Float || t == ScalarType::Double || t == ScalarType::BFloat16 ||
         t == ScalarType::Float8_e5m2 || t == ScalarType::Float8_e4m3fn;
}
inline bool isIntegralType(ScalarType t, bool with_bool = false) {
  return t == ScalarType::Bool ? with_bool : !isComplexType(t) && !isFloatingType(t) && t != ScalarType::Undefined;
}

#define FACULA_CONSTANT(type, name, code, python) constexpr ScalarType k##name = ScalarType::name;
FACULA_DTYPES(FACULA_CONSTANT)
#undef FACULA_CONSTANT
constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong, kFloat16 = kHalf,
                     kFloat32 = kFloat, kFloat64 = kDouble, kComplexHalf = ScalarType::ComplexHalf,
                     kFloat8_e5m2 = ScalarType::Float8_e5m2, kFloat8_e4m3fn = ScalarType::Float8_e4m3fn;

// A dtype as tensors give it; the same as its code.
class TypeMeta {
 public:
  TypeMeta(ScalarType code = ScalarType::Undefined) : code_(code) {}
  template <class T>
  static TypeMeta Make() { return CppTypeToScalarType<T>::value; }
  template <class T>
  bool Match() const { return code_ == CppTypeToScalarType<T>::value; }
  operator ScalarType() const { return code_; }
  ScalarType toScalarType() const { return code_; }
  size_t itemsize() const { return elementSize(code_); }
  std::string name() const { return toString(code_); }

 private:
  ScalarType code_;
};
inline bool operator==(TypeMeta a, TypeMeta b) { return ScalarType(a) == ScalarType(b); }
inline bool operator!=(TypeMeta a, TypeMeta b) { return !(a == b); }
inline bool operator==(TypeMeta a, ScalarType b) { return ScalarType(a) == b; }
inline bool operator!=(TypeMeta a, ScalarType b) { return ScalarType(a) != b; }
inline bool operator==(ScalarType a, TypeMeta b) { return a == ScalarType(b); }
inline bool operator!=(ScalarType a, TypeMeta b) { return a != ScalarType(b); }
inline ScalarType typeMetaToScalarType(TypeMeta dtype) { return dtype; }
inline TypeMeta scalarTypeToTypeMeta(ScalarType dtype) { return dtype; }

// ---- devices and the order of memory

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, XLA = 9, Meta = 14, HPU = 15, XPU = 12, MPS = 13, PrivateUse1 = 20 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta, kXPU = DeviceType::XPU,
                     kMPS = DeviceType::MPS, kPrivateUse1 = DeviceType::PrivateUse1;
using DeviceIndex = int8_t;

// By the name that Python has for it: a package may bring a device under a name of its own.
class Device {
 public:
  Device(DeviceType type, DeviceIndex index = -1) : name_(word(type)), index_(index) {}
  Device(const std::string &text) {
    size_t colon = text.find(':');
    name_ = text.substr(0, colon);
    if (colon != std::string::npos) index_ = static_cast<DeviceIndex>(std::atoi(text.c_str() + colon + 1));
  }
  Device(const char *text) : Device(std::string(text)) {}
  DeviceType type() const {
    for (DeviceType t : {DeviceType::CPU, DeviceType::CUDA, DeviceType::XLA, DeviceType::Meta, DeviceType::HPU,
                         DeviceType::XPU, DeviceType::MPS})
      if (name_ == word(t)) return t;
    return DeviceType::PrivateUse1;
  }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ >= 0; }
  void set_index(DeviceIndex index) { index_ = index; }
  bool is_cpu() const { return name_ == "cpu"; }
  bool is_cuda() const { return name_ == "cuda"; }
  bool is_meta() const { return name_ == "meta"; }
  std::string str() const { return has_index() ? name_ + ":" + std::to_string(index_) : name_; }
  bool operator==(const Device &other) const { return name_ == other.name_ && index_ == other.index_; }
  bool operator!=(const Device &other) const { return !(*this == other); }

  static const char *word(DeviceType type) {
    switch (type) {
      case DeviceType::CPU: return "cpu";
      case DeviceType::CUDA: return "cuda";
      case DeviceType::XLA: return "xla";
      case DeviceType::Meta: return "meta";
      case DeviceType::HPU: return "hpu";
      case DeviceType::XPU: return "xpu";
      case DeviceType::MPS: return "mps";
      default: return "privateuseone";
    }
  }

 private:
  std::string name_;
  DeviceIndex index_ = -1;
};
inline std::ostream &operator<<(std::ostream &out, const Device &device) { return out << device.str(); }
inline std::ostream &operator<<(std::ostream &out, DeviceType type) { return out << Device::word(type); }

enum class Layout : int8_t { Strided, Sparse, SparseCsr };
constexpr Layout kStrided = Layout::Strided, kSparse = Layout::Sparse, kSparseCsr = Layout::SparseCsr;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

// ---- views of arrays

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using iterator = const T *;
  using const_iterator = const T *;
  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T &one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T *data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T *begin, const T *end) : data_(begin), size_(static_cast<size_t>(end - begin)) {}
  template <class A, class = std::enable_if_t<!std::is_same_v<T, bool>, A>>
  ArrayRef(const std::vector<T, A> &all) : data_(all.data()), size_(all.size()) {}
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N> &all) : data_(all.data()), size_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&all)[N]) : data_(all), size_(N) {}
  constexpr ArrayRef(const std::initializer_list<T> &all)
      : data_(all.begin() == all.end() ? nullptr : all.begin()), size_(all.size()) {}
  constexpr const T *begin() const { return data_; }
  constexpr const T *end() const { return data_ + size_; }
  constexpr const T *data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T &operator[](size_t i) const { return data_[i]; }
  const T &at(size_t i) const {
    TORCH_CHECK(i < size_, "an index below ", size_, " was required: got ", i);
    return data_[i];
  }
  const T &front() const { return at(0); }
  const T &back() const { return at(size_ - 1); }
  ArrayRef slice(size_t from, size_t length) const {
    TORCH_CHECK(from + length <= size_, "a slice within ", size_, " items was required: got ", from, " + ", length);
    return {data_ + from, length};
  }
  ArrayRef slice(size_t from) const { return slice(from, size_ - from); }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  bool equals(ArrayRef other) const { return size_ == other.size_ && std::equal(begin(), end(), other.begin()); }

 private:
  const T *data_ = nullptr;
  size_t size_ = 0;
};
template <class T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) { return a.equals(b); }
template <class T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) { return !a.equals(b); }
template <class T>
bool operator==(const std::vector<T> &a, ArrayRef<T> b) { return b.equals(a); }
template <class T>
bool operator==(ArrayRef<T> a, const std::vector<T> &b) { return a.equals(b); }
template <class T>
bool operator!=(ArrayRef<T> a, const std::vector<T> &b) { return !a.equals(b); }
template <class T>
std::ostream &operator<<(std::ostream &out, ArrayRef<T> all) {
  out << "[";
  for (size_t i = 0; i < all.size(); i++) out << (i ? ", " : "") << all[i];
  return out << "]";
}
using IntArrayRef = ArrayRef<int64_t>;
using OptionalIntArrayRef = std::optional<IntArrayRef>;
// sizes are numbers in an extension: what traces with symbols calls its function for meta tensors
using SymInt = int64_t;
using SymIntArrayRef = IntArrayRef;

// The numbers from one to another.
template <class T>
class IntegerRange {
 public:
  struct iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T *;
    using reference = T &;
    T i;
    T operator*() const { return i; }
    iterator &operator++() { ++i; return *this; }
    bool operator==(const iterator &other) const { return i == other.i; }
    bool operator!=(const iterator &other) const { return i != other.i; }
  };
  IntegerRange(T begin, T end) : begin_{begin}, end_{end < begin ? begin : end} {}
  iterator begin() const { return begin_; }
  iterator end() const { return end_; }

 private:
  iterator begin_, end_;
};
template <class T>
IntegerRange<T> irange(T end) { return {T(0), end}; }
template <class A, class B>
IntegerRange<B> irange(A begin, B end) { return {static_cast<B>(begin), end}; }

// ---- a number of any kind

class Scalar {
 public:
  enum class Kind { Bool, Int, Float, Complex };
  Scalar() : Scalar(int64_t(0)) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value)
      : kind_(std::is_same_v<T, bool> ? Kind::Bool : std::is_floating_point_v<T> ? Kind::Float : Kind::Int),
        whole_(std::is_floating_point_v<T> ? 0 : static_cast<int64_t>(value)), real_(static_cast<double>(value)) {}
  Scalar(Half value) : Scalar(float(value)) {}
  Scalar(BFloat16 value) : Scalar(float(value)) {}
  template <class T>
  Scalar(std::complex<T> value) : kind_(Kind::Complex), real_(value.real()), imaginary_(value.imag()) {}
  Kind kind() const { return kind_; }
  bool isIntegral(bool with_bool = false) const { return kind_ == Kind::Int || (with_bool && kind_ == Kind::Bool); }
  bool isFloatingPoint() const { return kind_ == Kind::Float; }
  bool isComplex() const { return kind_ == Kind::Complex; }
  bool isBoolean() const { return kind_ == Kind::Bool; }
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      using Part = typename T::value_type;
      return T(static_cast<Part>(real_), static_cast<Part>(imaginary_));
    } else {
      TORCH_CHECK(kind_ != Kind::Complex || imaginary_ == 0, "a number without an imaginary part was required");
      if constexpr (std::is_same_v<T, bool>) return kind_ == Kind::Float ? real_ != 0 : whole_ != 0 || real_ != 0;
      else if constexpr (std::is_integral_v<T>) return static_cast<T>(isIntegral(true) ? whole_ : static_cast<int64_t>(real_));
      else return static_cast<T>(real_);
    }
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  bool toBool() const { return to<bool>(); }
  std::complex<double> toComplexDouble() const { return to<std::complex<double>>(); }
  ScalarType type() const {
    return kind_ == Kind::Bool ? kBool : kind_ == Kind::Int ? kLong : kind_ == Kind::Float ? kDouble : kComplexDouble;
  }
  Scalar operator-() const {
    if (kind_ == Kind::Complex) return Scalar(std::complex<double>(-real_, -imaginary_));
    return kind_ == Kind::Float ? Scalar(-real_) : Scalar(-whole_);
  }

 private:
  Kind kind_;
  int64_t whole_ = 0;
  double real_ = 0, imaginary_ = 0;
};

// ---- how a tensor is made

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType dtype) : dtype_(dtype) {}
  TensorOptions(TypeMeta dtype) : dtype_(ScalarType(dtype)) {}
  TensorOptions(Device device) : device_(std::move(device)) {}
  TensorOptions(DeviceType device) : device_(Device(device)) {}
  TensorOptions(Layout layout) : layout_(layout) {}
  TensorOptions(MemoryFormat format) : format_(format) {}
#define FACULA_OPTION(name, Type, member, value)                                              \
  TensorOptions name(Type given) const { TensorOptions made = *this; made.member = value; return made; }
  FACULA_OPTION(dtype, std::optional<ScalarType>, dtype_, given)
  FACULA_OPTION(device, std::optional<Device>, device_, given)
  FACULA_OPTION(layout, std::optional<Layout>, layout_, given)
  FACULA_OPTION(requires_grad, std::optional<bool>, requires_grad_, given)
  FACULA_OPTION(pinned_memory, std::optional<bool>, pinned_, given)
  FACULA_OPTION(memory_format, std::optional<MemoryFormat>, format_, given)
#undef FACULA_OPTION
  TensorOptions device(DeviceType type, DeviceIndex index) const { return device(Device(type, index)); }
  TensorOptions dtype(ScalarType type) const { return dtype(std::optional<ScalarType>(type)); }
  TensorOptions dtype(TypeMeta type) const { return dtype(ScalarType(type)); }
  TensorOptions device(DeviceType type) const { return device(Device(type)); }
  template <class T>
  TensorOptions dtype() const { return dtype(CppTypeToScalarType<T>::value); }
  TypeMeta dtype() const { return dtype_.value_or(kFloat); }
  Device device() const { return device_.value_or(Device(kCPU)); }
  Layout layout() const { return layout_.value_or(kStrided); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool pinned_memory() const { return pinned_.value_or(false); }
  std::optional<ScalarType> dtype_opt() const { return dtype_; }
  std::optional<Device> device_opt() const { return device_; }
  std::optional<Layout> layout_opt() const { return layout_; }
  std::optional<bool> requires_grad_opt() const { return requires_grad_; }
  std::optional<bool> pinned_memory_opt() const { return pinned_; }
  std::optional<MemoryFormat> memory_format_opt() const { return format_; }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }

 private:
  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<Layout> layout_;
  std::optional<bool> requires_grad_, pinned_;
  std::optional<MemoryFormat> format_;
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions().dtype(type); }
inline TensorOptions dtype(TypeMeta type) { return TensorOptions().dtype(type); }
template <class T>
TensorOptions dtype() { return TensorOptions().template dtype<T>(); }
inline TensorOptions device(Device device) { return TensorOptions().device(std::move(device)); }
inline TensorOptions device(DeviceType type, DeviceIndex index = -1) { return TensorOptions().device(type, index); }
inline TensorOptions layout(Layout layout) { return TensorOptions().layout(layout); }
inline TensorOptions requires_grad(bool wanted = true) { return TensorOptions().requires_grad(wanted); }
inline TensorOptions memory_format(MemoryFormat format) { return TensorOptions().memory_format(format); }

}  // namespace c10

namespace at {
using namespace c10;
namespace Reduction {
enum Reduction { None, Mean, Sum, END };
}
namespace indexing {
struct NoneType {};
struct EllipsisType {};
constexpr NoneType None{};
constexpr EllipsisType Ellipsis{};
// from:to:step, each of which may be left out
class Slice {
 public:
  using Bound = std::optional<int64_t>;
  Slice(Bound start = {}, Bound stop = {}, Bound step = {}) : start_(start), stop_(stop), step_(step) {}
  Slice(NoneType, Bound stop = {}, Bound step = {}) : Slice(Bound(), stop, step) {}
  Slice(NoneType, NoneType, Bound step = {}) : Slice(Bound(), Bound(), step) {}
  Slice(int64_t start, NoneType, Bound step = {}) : Slice(Bound(start), Bound(), step) {}
  Bound start() const { return start_; }
  Bound stop() const { return stop_; }
  Bound step() const { return step_; }

 private:
  Bound start_, stop_, step_;
};
}  // namespace indexing
}  // namespace at
namespace caffe2 {
using TypeMeta = c10::TypeMeta;
}
namespace torch {
using namespace at;
using Dtype = c10::ScalarType;
}  // namespace torch
