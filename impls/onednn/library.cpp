#include "onednn/library.hpp"

#include <omp.h>

#include <algorithm>

namespace onednn {

std::string version() {
  const dnnl_version_t& v = *dnnl_version();
  return "oneDNN " + std::to_string(v.major) + "." + std::to_string(v.minor) + "." +
         std::to_string(v.patch);
}

namespace {

/// The newest instruction set for which oneDNN generates code on this CPU.
const char* isa() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41: return "sse41";
    case dnnl_cpu_isa_avx: return "avx";
    case dnnl_cpu_isa_avx2: return "avx2";
    case dnnl_cpu_isa_avx2_vnni: return "avx2_vnni";
    case dnnl_cpu_isa_avx2_vnni_2: return "avx2_vnni_2";
    case dnnl_cpu_isa_avx512_core: return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni: return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_fp16: return "avx512_core_fp16";
    case dnnl_cpu_isa_avx512_core_amx: return "avx512_core_amx";
    case dnnl_cpu_isa_avx512_core_amx_fp16: return "avx512_core_amx_fp16";
    default: return "another instruction set";
  }
}

}  // namespace

std::string version_and_isa() { return version() + " on " + isa(); }

const attest_impl* with_version(const attest_impl& made) {
  static const std::string text = version();
  static const attest_impl table = [&] {
    attest_impl copy = made;
    copy.version = text.c_str();
    return copy;
  }();
  return &table;
}

dnnl::memory::data_type type_of(int32_t dtype) {
  using Type = dnnl::memory::data_type;
  return dtype == ATTEST_F32 ? Type::f32 : dtype == ATTEST_F16 ? Type::f16 : Type::bf16;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

void set_strides_of_ones(const dnnl::memory::dims& dims, dnnl::memory::dims& strides) {
  int64_t extent = 1;  // of the dims behind
  for (size_t n = strides.size(); n-- > 0;) {
    if (dims[n] == 1) strides[n] = extent;
    extent = std::max(extent, dims[n] * strides[n]);
  }
}

Threads::Threads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
Threads::~Threads() { omp_set_num_threads(before_); }

}  // namespace onednn
