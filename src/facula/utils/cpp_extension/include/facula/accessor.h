// Elements of tensors in loops: a pointer with sizes and strides.
//
// A TensorAccessor views the sizes of a tensor that outlives it; a PackedTensorAccessor holds its own.
#pragma once

#include <facula/types.h>

namespace at {

template <class T>
struct DefaultPtrTraits {
  using PtrType = T *;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T *__restrict__;
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename Traits<T>::PtrType;
  TensorAccessor(PtrType data, const Index *sizes, const Index *strides) : data_(data), sizes_(sizes), strides_(strides) {}
  decltype(auto) operator[](Index i) const {
    if constexpr (N == 1)
      return static_cast<T &>(data_[strides_[0] * i]);
    else
      return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
  Index size(Index i) const { return sizes_[i]; }
  Index stride(Index i) const { return strides_[i]; }
  ArrayRef<Index> sizes() const { return {sizes_, N}; }
  ArrayRef<Index> strides() const { return {strides_, N}; }
  PtrType data() const { return data_; }

 private:
  PtrType data_;
  const Index *sizes_, *strides_;
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class GenericPackedTensorAccessor {
 public:
  using PtrType = typename Traits<T>::PtrType;
  GenericPackedTensorAccessor(PtrType data, const int64_t *sizes, const int64_t *strides) : data_(data) {
    for (size_t i = 0; i < N; i++) {
      sizes_[i] = static_cast<Index>(sizes[i]);
      strides_[i] = static_cast<Index>(strides[i]);
    }
  }
  decltype(auto) operator[](Index i) const {
    return TensorAccessor<T, N, Traits, Index>(data_, sizes_.data(), strides_.data())[i];
  }
  Index size(Index i) const { return sizes_[static_cast<size_t>(i)]; }
  Index stride(Index i) const { return strides_[static_cast<size_t>(i)]; }
  PtrType data() const { return data_; }

 private:
  PtrType data_;
  std::array<Index, N> sizes_, strides_;
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;

}  // namespace at
