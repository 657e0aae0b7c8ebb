// The kernels that a library has for CUDA devices, read from the file alone: nothing is loaded or
// launched.
//
//   const std::vector<CudaCode> codes = read_cuda_code("flash_cuda.so");
//   if (!codes.empty() && best_fit(codes, 87) == CudaFit::kNone)
//     fmt::print("no kernel for sm_87: it has {}\n", print(codes));
//
// nvcc keeps code in the section .nv_fatbin of an ELF file: containers, each a header and entries
// of SASS or PTX. NVIDIA does not document the form; it was found from what nvcc 13.0 writes, with
// and without compression (cuda_code_test.cpp), and what has another form has no code that is
// known.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace attest::core {

/// One kind of code in a library.
struct CudaCode {
  int architecture = 0;  // 87, 90
  bool ptx = false;      // text that the driver compiles; otherwise SASS
  char variant = 0;      // 'a': for this architecture alone; 'f': for its family; 0: neither

  auto operator<=>(const CudaCode&) const = default;
};

/// Sorted, each kind once. Empty: the file has no such section, cannot be read, or has another
/// form.
std::vector<CudaCode> read_cuda_code(const std::filesystem::path& file);
/// The same of the contents of an ELF file.
std::vector<CudaCode> parse_cuda_code(std::span<const std::byte> file);

/// Whether a device takes code. kPerhaps: it takes it in practice, and NVIDIA does not promise it:
/// SASS of sm_80 or sm_86 on sm_87.
enum class CudaFit { kNone, kPerhaps, kYes };
CudaFit fit(const CudaCode& code, int architecture);
CudaFit best_fit(const std::vector<CudaCode>& codes, int architecture);

/// "sm_87 sm_90a, PTX of compute_80".
std::string print(const std::vector<CudaCode>& codes);

/// Why a library's kernels cannot run on a device of that architecture ("sm_87"): "no kernel for
/// sm_87: it has sm_90a". Empty: they can, or it is not known that they cannot.
std::string cuda_code_missing(const std::filesystem::path& library,
                              const std::string& architecture);

}  // namespace attest::core
