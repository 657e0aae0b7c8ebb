// onednn/library.hpp: what implementations on oneDNN share: its version, element types, attributes,
// and how many threads it uses.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "attest.h"

namespace onednn {

/// "oneDNN 3.2.0": of the library that is loaded.
std::string version();
/// "oneDNN 3.2.0 on avx2": and the newest instruction set that it uses on this CPU.
std::string version_and_isa();

/// The table of a plugin's only implementation, with the version of the library that is loaded.
const attest_impl* with_version(const attest_impl& made);

/// Of f32, f16 or bf16.
dnnl::memory::data_type type_of(int32_t dtype);

/// Attributes that keep the environment from changing the arithmetic, and that let scratch memory
/// be the caller's.
dnnl::primitive_attr attributes();

const dnnl::engine& cpu();

/// Gives each dim of 1 the stride that it has in a dense tensor: the number of elements that the
/// dims behind it span. attest writes 0 there, but oneDNN takes the order of dims from the strides.
void set_strides_of_ones(const dnnl::memory::dims& dims, dnnl::memory::dims& strides);

/// While it lives, oneDNN plans for and computes with that many threads on the calling thread.
class Threads {
 public:
  explicit Threads(int threads);
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads();

 private:
  const int before_;
};

}  // namespace onednn
