// trespassers: right results, but each touches memory that is not its own, or relies on more than
// it is promised. attest has to notice every one of them, and name the tensor.
#include <cstdint>

#include "mutants/plain_attention.hpp"

namespace {

enum class Trespass {
  kNone,
  kBefore,
  kBehind,
  kVectorBehind,
  kBetween,
  kInput,
  kReadBefore,
  kReadBehind,
  kReadBetween,
  kAlignedTensor,
  kAlignedWorkspace,
  kLittleWorkspace,
  kMuchWorkspace,
  kZeroedWorkspace,
  kZeroedOutput
};

struct Description {
  const char *name, *summary;
};
constexpr Description describe(Trespass trespass) {
  switch (trespass) {
    case Trespass::kNone: return {"trespasser_none", "keeps to itself"};
    case Trespass::kBefore: return {"trespasser_before", "writes one element before O"};
    case Trespass::kBehind: return {"trespasser_behind", "writes one element behind O"};
    case Trespass::kVectorBehind: return {"trespasser_vector_behind", "writes 64 bytes behind O"};
    case Trespass::kBetween: return {"trespasser_between", "writes between two rows of O"};
    case Trespass::kInput: return {"trespasser_input", "writes element 37 of K"};
    case Trespass::kReadBefore:
      return {"trespasser_read_before", "relies on the element before Q being finite"};
    case Trespass::kReadBehind:
      return {"trespasser_read_behind", "relies on the element behind V being finite"};
    case Trespass::kReadBetween:
      return {"trespasser_read_between", "relies on what lies between two rows of Q being finite"};
    case Trespass::kAlignedTensor:
      return {"trespasser_aligned_tensor", "takes Q to lie on 128 bytes"};
    case Trespass::kAlignedWorkspace:
      return {"trespasser_aligned_workspace", "takes the workspace to lie on 512 bytes"};
    case Trespass::kLittleWorkspace:
      return {"trespasser_little_workspace", "uses 4 bytes more workspace than it declares"};
    case Trespass::kMuchWorkspace:
      return {"trespasser_much_workspace", "uses 512 KiB more workspace than it declares"};
    case Trespass::kZeroedWorkspace:
      return {"trespasser_zeroed_workspace", "takes the workspace to be zeroed"};
    case Trespass::kZeroedOutput:
      return {"trespasser_zeroed_output", "adds to an output that it takes to be zeroed"};
  }
  return {"", ""};
}

constexpr uint64_t kWorkspaceBytes = 1000;

int64_t elements_to_end(const attest_tensor& tensor) {
  int64_t last = 0;
  for (int32_t i = 0; i < tensor.rank; ++i) last += (tensor.dim[i] - 1) * tensor.stride[i];
  return last + 1;
}

float* rounded_down(void* pointer, uintptr_t alignment) {
  return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(pointer) / alignment * alignment);
}

template <Trespass kTrespass>
struct Trespasser {
  static constexpr attest::Info kInfo{.name = describe(kTrespass).name,
                                      .version = "1",
                                      .summary = describe(kTrespass).summary,
                                      .dtypes = ATTEST_BIT(ATTEST_F32),
                                      .features = ATTEST_WITH_STRIDES};
  const attest_problem& problem;

  static const char* query(const attest_problem& problem, attest_support& support) {
    const bool between = kTrespass == Trespass::kBetween || kTrespass == Trespass::kReadBetween;
    const int32_t role = kTrespass == Trespass::kBetween ? ATTEST_O : ATTEST_Q;
    if (between && problem.tensor[role].stride[2] <= problem.tensor[role].dim[3])
      return "no gap, so nothing is wrong here";
    support.workspace_bytes = kWorkspaceBytes;
    return nullptr;
  }

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    const attest::Softmax<float> a(problem, data);
    const attest_tensor* tensor = problem.tensor;
    // Volatile: what is read and written is meant, though nothing comes of it.
    volatile float *q = static_cast<float*>(data[ATTEST_Q]),
                   *k = static_cast<float*>(data[ATTEST_K]),
                   *v = static_cast<float*>(data[ATTEST_V]),
                   *o = static_cast<float*>(data[ATTEST_O]),
                   *scratch = static_cast<float*>(workspace);
    const float before = o[0];
    mutants::attend(a);
    switch (kTrespass) {
      case Trespass::kNone: break;
      case Trespass::kBefore: o[-1] = 1; break;
      case Trespass::kBehind: o[elements_to_end(tensor[ATTEST_O])] = 1; break;
      case Trespass::kVectorBehind:
        for (int64_t i = 0; i < 16; ++i) o[elements_to_end(tensor[ATTEST_O]) + i] = 1;
        break;
      case Trespass::kBetween: o[tensor[ATTEST_O].dim[3]] = 1; break;
      case Trespass::kInput: k[37] = 1; break;
      case Trespass::kReadBefore: o[0] = o[0] + 0 * q[-1]; break;
      case Trespass::kReadBehind: o[0] = o[0] + 0 * v[elements_to_end(tensor[ATTEST_V])]; break;
      case Trespass::kReadBetween: o[0] = o[0] + 0 * q[tensor[ATTEST_Q].dim[3]]; break;
      case Trespass::kAlignedTensor:
        o[0] = o[0] + (*rounded_down(data[ATTEST_Q], 128) - q[0]);
        break;
      case Trespass::kAlignedWorkspace:
        *static_cast<volatile float*>(rounded_down(workspace, 512)) = 1;
        break;
      case Trespass::kLittleWorkspace: scratch[kWorkspaceBytes / 4] = 1; break;
      case Trespass::kMuchWorkspace:
        for (uint64_t i = 0; i < (kWorkspaceBytes + (512u << 10)) / 4; ++i) scratch[i] = 1;
        break;
      case Trespass::kZeroedWorkspace: o[0] = o[0] + scratch[5]; break;
      case Trespass::kZeroedOutput: o[0] = o[0] + before; break;
    }
  }
};

}  // namespace

ATTEST_PLUGIN(attest::table<Trespasser<Trespass::kNone>>(),
              attest::table<Trespasser<Trespass::kBefore>>(),
              attest::table<Trespasser<Trespass::kBehind>>(),
              attest::table<Trespasser<Trespass::kVectorBehind>>(),
              attest::table<Trespasser<Trespass::kBetween>>(),
              attest::table<Trespasser<Trespass::kInput>>(),
              attest::table<Trespasser<Trespass::kReadBefore>>(),
              attest::table<Trespasser<Trespass::kReadBehind>>(),
              attest::table<Trespasser<Trespass::kReadBetween>>(),
              attest::table<Trespasser<Trespass::kAlignedTensor>>(),
              attest::table<Trespasser<Trespass::kAlignedWorkspace>>(),
              attest::table<Trespasser<Trespass::kLittleWorkspace>>(),
              attest::table<Trespasser<Trespass::kMuchWorkspace>>(),
              attest::table<Trespasser<Trespass::kZeroedWorkspace>>(),
              attest::table<Trespasser<Trespass::kZeroedOutput>>())
