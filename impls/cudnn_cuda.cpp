// cudnn_cuda: cuDNN's fused attention, by the graphs of its frontend: what a user would pick
// instead. The library is found at run time; what it cannot do is unsupported with its own words.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "attest.hpp"
#include "cuda/check.cuh"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the frontend takes every function from here
}

namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

void require(fe::error_t error) {
  if (error.is_bad()) throw std::runtime_error("cuDNN: " + error.get_message());
}

void find_library() {
  if (fe::cudnn_dlhandle) return;
  const char* named = std::getenv("ATTEST_CUDNN");
  fe::cudnn_dlhandle = dlopen(named ? named : "libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
  if (!fe::cudnn_dlhandle)
    throw std::runtime_error("cuDNN is not there (libcudnn.so.9; ATTEST_CUDNN names another)");
}

/// What plans are made for: the device at hand or, so that query can be tried without one, what the
/// JSON file that ATTEST_CUDNN_DEVICE names says of a device, as cuDNN prints it
/// (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
class Target {
 public:
  /// The only one of a process, since a handle takes long to make. It is never destroyed: when a
  /// process ends, the driver may be gone before its static objects are.
  static const Target& of_process() {
    static const Target* const only = new Target;
    return *only;
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  fe::error_t build(fe::graph::Graph& graph) const {
    if (handle_) return graph.build(handle_, {fe::HeurMode_t::A});
    return graph.set_device_properties(described_).build({fe::HeurMode_t::A});
  }
  /// Compute capability, times 10.
  int capability() const { return capability_; }
  /// Null: there is no device.
  cudnnHandle_t handle() const { return handle_; }

 private:
  Target() {
    find_library();
    if (const char* described = std::getenv("ATTEST_CUDNN_DEVICE")) {
      describe(described);
    } else {
      capability_ = 10 * cuda::attribute(cudaDevAttrComputeCapabilityMajor) +
                    cuda::attribute(cudaDevAttrComputeCapabilityMinor);
      if (fe::detail::create_handle(&handle_) != CUDNN_STATUS_SUCCESS)
        throw std::runtime_error("cuDNN: cudnnCreate fails");
    }
  }
  void describe(const char* path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<uint8_t> json{std::istreambuf_iterator<char>(file), {}};
    const auto described = std::make_shared<fe::DeviceProperties>();
    const std::string text(json.begin(), json.end());
    std::smatch capability;
    if (!file || described->deserialize(json).is_bad() ||
        !std::regex_search(text, capability, std::regex("\"deviceVer\"\\s*:\\s*([0-9]{3,4})")))
      throw std::runtime_error(std::string("ATTEST_CUDNN_DEVICE: ") + path +
                               " describes no device");
    described_ = described;
    capability_ = std::stoi(capability[1]) / 10;
  }
  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<const fe::DeviceProperties> described_;
  int capability_ = 0;
};

// A tensor that attest has no role for: lengths of queries or keys, where the problem has lengths
// of the others alone.
constexpr int64_t kFullLengths = ATTEST_ROLES;

/// A graph of one node, with its plans. Tensors are known to it by their role or as kFullLengths.
struct Attention {
  fe::graph::Graph graph;
  std::vector<int64_t> uids;
  uint64_t workspace_bytes = 0;

  void run(void* const* data, void* full_lengths, void* workspace, cudaStream_t stream) {
    const cudnnHandle_t handle = Target::of_process().handle();
    std::unordered_map<int64_t, void*> addresses;
    for (const int64_t uid : uids) addresses[uid] = uid == kFullLengths ? full_lengths : data[uid];
    if (fe::detail::set_stream(handle, stream) != CUDNN_STATUS_SUCCESS)
      throw std::runtime_error("cudnnSetStream fails");
    require(graph.execute(handle, addresses, workspace));
  }
};

/// Describes a problem to cuDNN, and has it make plans.
class Draft {
 public:
  explicit Draft(const attest_problem& problem)
      : problem_(problem), p_(attest::params<attest_softmax_params>(problem)) {}

  std::shared_ptr<Attention> build() {
    const Target& target = Target::of_process();
    const auto type = problem_.tensor[ATTEST_Q].dtype == ATTEST_F16 ? fe::DataType_t::HALF
                                                                    : fe::DataType_t::BFLOAT16;
    // Else nodes ask a CUDA runtime of the frontend's, which need not be there.
    graph().set_sm_version(target.capability());
    graph()
        .set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    auto options =
        fe::graph::SDPA_attributes().set_name("attention").set_attn_scale(p_.softmax_scale);
    options.set_generate_stats(has(ATTEST_LSE));
    add_band(options);
    if (has(ATTEST_BIAS)) options.set_bias(tensor(ATTEST_BIAS));
    if (has(ATTEST_SINKS))
      options.set_sink_token(tensor(ATTEST_SINKS, {1, p_.num_heads, 1, 1}, fe::DataType_t::FLOAT));
    add_lengths(options);
    const auto [o, stats] =
        graph().sdpa(tensor(ATTEST_Q), tensor(ATTEST_K), tensor(ATTEST_V), options);
    set_output(*o, ATTEST_O).set_dim(dims(ATTEST_O)).set_stride(strides(ATTEST_O));
    if (has(ATTEST_LSE)) {
      const attest_tensor& lse = problem_.tensor[ATTEST_LSE];
      const std::vector<int64_t> column{lse.dim[0], lse.dim[1], lse.dim[2], 1};
      set_output(*stats, ATTEST_LSE)
          .set_data_type(fe::DataType_t::FLOAT)
          .set_dim(column)
          .set_stride(of_whole_dims(column, lse.stride));
    }
    require(target.build(graph()));
    int64_t bytes = 0;
    require(graph().get_workspace_size(bytes));
    made_->workspace_bytes = static_cast<uint64_t>(bytes);
    return made_;
  }

 private:
  fe::graph::Graph& graph() { return made_->graph; }
  bool has(int32_t role) const { return problem_.tensor[role].dtype != ATTEST_NONE; }

  /// cuDNN wants a stride where attest has 0, of a dim of 1.
  static std::vector<int64_t> of_whole_dims(const std::vector<int64_t>& dims,
                                            const int64_t* stride) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t axis = dims.size(); axis-- > 0;) {
      const int64_t dense = axis + 1 < dims.size() ? strides[axis + 1] * dims[axis + 1] : 1;
      strides[axis] = dims[axis] == 1 || stride == nullptr ? dense : stride[axis];
    }
    return strides;
  }
  std::vector<int64_t> dims(int32_t role) const {
    const attest_tensor& spec = problem_.tensor[role];
    return {spec.dim, spec.dim + spec.rank};
  }
  std::vector<int64_t> strides(int32_t role) const {
    return of_whole_dims(dims(role), problem_.tensor[role].stride);
  }

  fe::graph::Tensor_attributes& set_output(fe::graph::Tensor_attributes& tensor, int32_t role) {
    made_->uids.push_back(role);
    return tensor.set_output(true).set_uid(role);
  }
  Tensor tensor(int64_t uid, const std::vector<int64_t>& dims,
                const std::vector<int64_t>& strides) {
    made_->uids.push_back(uid);
    return graph().tensor(fe::graph::Tensor_attributes()
                              .set_name(std::to_string(uid))
                              .set_uid(uid)
                              .set_dim(dims)
                              .set_stride(strides));
  }
  Tensor tensor(int32_t role) { return tensor(role, dims(role), strides(role)); }
  Tensor tensor(int64_t uid, const std::vector<int64_t>& dense_dims, fe::DataType_t type) {
    const Tensor made = tensor(uid, dense_dims, of_whole_dims(dense_dims, nullptr));
    made->set_data_type(type);
    return made;
  }

  /// cuDNN's left bound counts the diagonal too, its right bound does not.
  void add_band(fe::graph::SDPA_attributes& options) const {
    if (p_.window_left < 0 && p_.window_right < 0) return;
    options.set_diagonal_alignment(p_.diagonal == ATTEST_BOTTOM_RIGHT
                                       ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                       : fe::DiagonalAlignment_t::TOP_LEFT);
    if (p_.window_left >= 0)
      options.set_diagonal_band_left_bound(static_cast<int>(p_.window_left) + 1);
    if (p_.window_right >= 0)
      options.set_diagonal_band_right_bound(static_cast<int>(p_.window_right));
  }
  /// cuDNN takes lengths of queries and keys, or none.
  void add_lengths(fe::graph::SDPA_attributes& options) {
    if (!has(ATTEST_SEQ_LENS_Q) && !has(ATTEST_SEQ_LENS_KV)) return;
    const std::vector<int64_t> each{p_.batch, 1, 1, 1};
    const auto lengths = [&](int32_t role) {
      return tensor(has(role) ? role : kFullLengths, each, fe::DataType_t::INT32);
    };
    options.set_padding_mask(true)
        .set_seq_len_q(lengths(ATTEST_SEQ_LENS_Q))
        .set_seq_len_kv(lengths(ATTEST_SEQ_LENS_KV));
    if (!has(ATTEST_PAGE_TABLE)) return;
    const attest_tensor& table = problem_.tensor[ATTEST_PAGE_TABLE];
    const auto pages = [&] {
      return tensor(ATTEST_PAGE_TABLE, {p_.batch, 1, table.dim[1], 1}, fe::DataType_t::INT32);
    };
    const Tensor both = pages();
    options.set_paged_attention_k_table(both).set_paged_attention_v_table(both);
    options.set_paged_attention_max_seq_len_kv(static_cast<int>(p_.seq_len_kv));
  }

  const attest_problem& problem_;
  const attest_softmax_params& p_;
  const std::shared_ptr<Attention> made_ = std::make_shared<Attention>();
};

/// What makes a problem, apart from its data.
std::string bytes_of(const attest_problem& problem) {
  std::string bytes;
  const auto append = [&](const auto& part) {
    bytes.append(reinterpret_cast<const char*>(&part), sizeof part);
  };
  append(problem.operation);
  append(problem.features);
  append(problem.device_id);
  append(attest::params<attest_softmax_params>(problem));
  for (int role = 0; role < ATTEST_ROLES; ++role) append(problem.tensor[role]);
  return bytes;
}

/// The plans for a problem. They are kept, as in a program that meets the same shapes again: a
/// harness asks for one problem many times, and cuDNN takes up to a second to plan and compile.
std::shared_ptr<Attention> attention_for(const attest_problem& problem) {
  constexpr size_t kMostKept = 64;
  static auto& kept = *new std::unordered_map<std::string, std::shared_ptr<Attention>>;
  std::string key = bytes_of(problem);
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  const std::shared_ptr<Attention> made = Draft(problem).build();
  if (kept.size() == kMostKept) kept.clear();
  return kept[std::move(key)] = made;
}

/// Whether its elements lie one behind the other, or it is not there.
bool is_dense(const attest_tensor& tensor) {
  int64_t elements = 1;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    if (tensor.dim[axis] > 1 && tensor.stride[axis] != elements) return false;
    elements *= tensor.dim[axis];
  }
  return true;
}

class Cudnn {
 public:
  static constexpr attest::Info kInfo = {
      /*name=*/"cudnn_cuda",
      /*version=*/"1",
      /*summary=*/"cuDNN's fused attention",
      /*operation=*/ATTEST_SOFTMAX,
      /*device=*/ATTEST_CUDA,
      /*dtypes=*/ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      /*features=*/ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
          ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_BIAS | ATTEST_WITH_LSE |
          ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES | ATTEST_WITH_STRIDES | ATTEST_WITH_SINKS};

  static const char* query(const attest_problem& problem, attest_support& support) {
    static thread_local std::string why;
    const auto& p = attest::params<attest_softmax_params>(problem);
    if (p.diagonal_offset != 0) return "a diagonal with an offset";
    if (p.window_left > INT32_MAX - 1 || p.window_right > INT32_MAX || p.seq_len_kv > INT32_MAX)
      return "2^31 keys";
    if (problem.tensor[ATTEST_PAGE_TABLE].dtype != ATTEST_NONE &&
        problem.tensor[ATTEST_SEQ_LENS_KV].dtype == ATTEST_NONE)
      return "pages without lengths";
    for (const int role : {ATTEST_SINKS, ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_PAGE_TABLE})
      if (!is_dense(problem.tensor[role])) return "sinks, lengths or pages with strides";
    for (const int stage : {ATTEST_SOFTMAX_QK, ATTEST_SOFTMAX_PV})
      support.stage[stage].dtype = problem.tensor[ATTEST_Q].dtype;
    try {
      support.workspace_bytes = attention_for(problem)->workspace_bytes;
    } catch (const std::exception&
                 error) {  // the frontend throws where a library or a function is missing
      why = error.what();
      return why.c_str();
    }
    return nullptr;
  }
  explicit Cudnn(const attest_problem& given) : problem(given), attention_(attention_for(given)) {
    if (!Target::of_process().handle())
      throw std::runtime_error("plans for a device that ATTEST_CUDNN_DEVICE describes do not run");
    const auto& p = attest::params<attest_softmax_params>(problem);
    const bool of_queries = problem.tensor[ATTEST_SEQ_LENS_Q].dtype == ATTEST_NONE;
    const std::vector<int32_t> lengths(
        static_cast<size_t>(p.batch),
        static_cast<int32_t>(of_queries ? p.seq_len_q : p.seq_len_kv));
    const size_t bytes = lengths.size() * sizeof(int32_t);
    cuda::check(cudaMalloc(&full_lengths_, bytes), "cudaMalloc");
    const cudaError_t copied =
        cudaMemcpy(full_lengths_, lengths.data(), bytes, cudaMemcpyHostToDevice);
    // A copy from pageable memory may return before it is over, and streams of others do not wait
    // for it.
    const cudaError_t done = cudaDeviceSynchronize();
    if (copied != cudaSuccess || done != cudaSuccess) cudaFree(full_lengths_);
    cuda::check(copied, "cudaMemcpy");
    cuda::check(done, "cudaDeviceSynchronize");
  }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  ~Cudnn() { cudaFree(full_lengths_); }

  const attest_problem& problem;

  void run(void* const* data, void* workspace, void* stream) {
    attention_->run(data, full_lengths_, workspace, static_cast<cudaStream_t>(stream));
  }

 private:
  const std::shared_ptr<Attention> attention_;
  void* full_lengths_ = nullptr;
};

}  // namespace

ATTEST_PLUGIN(attest::table<Cudnn>())
