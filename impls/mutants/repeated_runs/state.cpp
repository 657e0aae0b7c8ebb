// state: attention in float32, one query at a time, right in the first run of the first plan of a
// process. What goes wrong later hangs on what an earlier run or another plan has left: counters,
// workspaces, addresses, caches, what plans share.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mutants/plain_attention.hpp"

namespace {

enum class Bug {
  kNone,
  kRun2,
  kRun3,
  kFromRun10,
  kSlowFromRun10,
  kRun7,
  kRun13,
  kEvery14,
  kFromRun50,
  kFromRun60,
  kFractions,
  kLarge,
  kOne,
  kZero,
  kIntegerOne,
  kMaximumInWorkspace,
  kSemaphoreLeft,
  kSemaphoreKept,
  kByAddress,
  kFirstAddresses,
  kIntegersOfRun1,
  kPagesOfRun1,
  kKeyWithoutScale,
  kKeyWithoutStrides,
  kKeyWithoutMask,
  kKeyWithoutWindow,
  kKeyWithoutWindowLeft,
  kKeyWithoutWindowRight,
  kKeyWithoutDiagonal,
  kKeyWithoutOffset,
  kKeyOfOffsetPresent,
  kKeyWithoutSoftcap,
  kKeyOfSoftcapPresent,
  kKeyWithoutBias,
  kKeyWithoutAlibi,
  kKeyWithoutSinks,
  kKeyWithoutLse,
  kKeyWithoutOrder,
  kKeyWithoutPatches,
  kKeyOfPatchesPresent,
  kKeyWithoutShift,
  kKeyOfShiftPresent,
  kKeyWithoutShiftBias,
  kKeyWithoutGridWindow,
  kKeyWithoutRelBias,
  kKeyWithoutDtype,
  kKeyWithoutKvHeads,
  kKeyOfGroups,
  kKeyWithoutBlockMask,
  kKeyWithoutBlockSizes,
  kKeyWithoutGlobal,
  kKeyOfGlobalPresent,
  kKeyWithoutTopK,
  kKeyOfTopKPresent,
  kKeyWithoutDescale,
  kKeyWithoutDescaleBlocks,
  kKeyWithoutLengths,
  kScaleBySizes,
  kRoundsBySizes,
  kRoundsDeclared,
  kFirstRows,
  kFirstKeys,
  kFirstWidth,
  kLengthsKept,
  kLastCreated,
  kDiesWithAnother,
  kSharedByProblem,
  kOneAtATime,
  kOneAtATimeKept
};

struct Description {
  const char *name, *summary;
};
constexpr Description describe(Bug bug) {
  switch (bug) {
    case Bug::kNone: return {"state_none", "keeps nothing"};
    case Bug::kRun2: return {"state_run_2", "wrong in the second run of a plan"};
    case Bug::kRun3: return {"state_run_3", "wrong in the third run of a plan"};
    case Bug::kRun7: return {"state_run_7", "wrong in the seventh run of a plan"};
    case Bug::kRun13: return {"state_run_13", "wrong in the thirteenth run of a plan"};
    case Bug::kEvery14: return {"state_every_14", "wrong in every fourteenth run of a plan"};
    case Bug::kFromRun10: return {"state_from_run_10", "wrong from the tenth run of a plan on"};
    case Bug::kSlowFromRun10:
      return {"state_slow_from_run_10", "takes 12 ms a run, and is wrong from the tenth on"};
    case Bug::kFromRun50: return {"state_from_run_50", "wrong from the fiftieth run of a plan on"};
    case Bug::kFromRun60: return {"state_from_run_60", "wrong from the sixtieth run of a plan on"};
    case Bug::kFractions:
      return {"state_fractions", "takes a number in (0, 1) in the workspace for a weight"};
    case Bug::kLarge:
      return {"state_large", "takes a number beyond 1e6 in the workspace for a maximum"};
    case Bug::kOne: return {"state_one", "takes 1.0 in the workspace for a flag"};
    case Bug::kZero:
      return {"state_zero", "takes 0 in the workspace for a counter that is to be filled"};
    case Bug::kIntegerOne:
      return {"state_integer_one", "takes the integer 1 in the workspace for a lock"};
    case Bug::kMaximumInWorkspace:
      return {"state_maximum_in_workspace",
              "begins with a number below 1 in the workspace as a row's maximum"};
    case Bug::kSemaphoreLeft:
      return {"state_semaphore_left",
              "zeroes a semaphore in a plan's first run and leaves it at 1"};
    case Bug::kSemaphoreKept:
      return {"state_semaphore_kept",
              "zeroes a semaphore in a plan's first run alone, and leaves it at 0"};
    case Bug::kByAddress:
      return {"state_by_address", "keeps its result for the addresses of the run before"};
    case Bug::kFirstAddresses:
      return {"state_first_addresses",
              "keeps to the addresses of a plan's first run, as a graph does"};
    case Bug::kIntegersOfRun1:
      return {"state_integers_of_run_1",
              "keeps the lengths, order and pages of a plan's first run"};
    case Bug::kPagesOfRun1:
      return {"state_pages_of_run_1", "keeps the page table of a plan's first run"};
    case Bug::kKeyWithoutScale:
      return {"state_key_without_scale", "a cache of plans without softmax_scale in its keys"};
    case Bug::kKeyWithoutStrides:
      return {"state_key_without_strides", "a cache of plans without strides in its keys"};
    case Bug::kKeyWithoutMask:
      return {"state_key_without_mask", "a cache of plans without the mask in its keys"};
    case Bug::kKeyWithoutWindow:
      return {"state_key_without_window", "a cache of plans without the window in its keys"};
    case Bug::kKeyWithoutWindowLeft:
      return {"state_key_without_window_left",
              "a cache of plans without the size of window_left in its keys"};
    case Bug::kKeyWithoutWindowRight:
      return {"state_key_without_window_right",
              "a cache of plans without the size of window_right in its keys"};
    case Bug::kKeyWithoutDiagonal:
      return {"state_key_without_diagonal", "a cache of plans without the diagonal in its keys"};
    case Bug::kKeyWithoutOffset:
      return {"state_key_without_offset", "a cache of plans without diagonal_offset in its keys"};
    case Bug::kKeyOfOffsetPresent:
      return {"state_key_of_offset_present",
              "a cache of plans that only knows whether there is a diagonal_offset"};
    case Bug::kKeyWithoutSoftcap:
      return {"state_key_without_softcap", "a cache of plans without the softcap in its keys"};
    case Bug::kKeyOfSoftcapPresent:
      return {"state_key_of_softcap_present", "a cache that only knows whether there is a softcap"};
    case Bug::kKeyWithoutBias:
      return {"state_key_without_bias", "a cache of plans without the bias in its keys"};
    case Bug::kKeyWithoutAlibi:
      return {"state_key_without_alibi", "a cache of plans without ALiBi's slopes in its keys"};
    case Bug::kKeyWithoutSinks:
      return {"state_key_without_sinks", "a cache of plans without the sinks in its keys"};
    case Bug::kKeyWithoutLse:
      return {"state_key_without_lse", "a cache of plans without the lse in its keys"};
    case Bug::kKeyWithoutOrder:
      return {"state_key_without_order", "a cache of plans without the order in its keys"};
    case Bug::kKeyWithoutPatches:
      return {"state_key_without_patches", "a cache of plans without patch_size in its keys"};
    case Bug::kKeyWithoutShift:
      return {"state_key_without_shift",
              "a cache of plans without shift_y and shift_x in its keys"};
    case Bug::kKeyOfPatchesPresent:
      return {"state_key_of_patches_present",
              "a cache of plans that only knows whether there are patches"};
    case Bug::kKeyOfShiftPresent:
      return {"state_key_of_shift_present",
              "a cache of plans that only knows whether windows are shifted"};
    case Bug::kKeyWithoutShiftBias:
      return {"state_key_without_shift_bias", "a cache of plans without shift_bias in its keys"};
    case Bug::kKeyWithoutGridWindow:
      return {"state_key_without_grid_window",
              "a cache of plans without window_height in its keys"};
    case Bug::kKeyWithoutRelBias:
      return {"state_key_without_rel_bias",
              "a cache of plans without the relative bias in its keys"};
    case Bug::kKeyWithoutDtype:
      return {"state_key_without_dtype", "a cache of plans without dtypes in its keys"};
    case Bug::kKeyWithoutKvHeads:
      return {"state_key_without_kv_heads", "a cache of plans without num_kv_heads in its keys"};
    case Bug::kKeyOfGroups:
      return {"state_key_of_groups", "a cache that only knows whether heads are grouped"};
    case Bug::kKeyWithoutBlockMask:
      return {"state_key_without_block_mask",
              "a cache of plans without the block mask in its keys"};
    case Bug::kKeyWithoutBlockSizes:
      return {"state_key_without_block_sizes",
              "a cache that only knows whether there is a block mask"};
    case Bug::kKeyWithoutGlobal:
      return {"state_key_without_global", "a cache of plans without global_tokens in its keys"};
    case Bug::kKeyOfGlobalPresent:
      return {"state_key_of_global_present",
              "a cache that only knows whether there are global tokens"};
    case Bug::kKeyWithoutTopK:
      return {"state_key_without_top_k", "a cache of plans without top_k in its keys"};
    case Bug::kKeyOfTopKPresent:
      return {"state_key_of_top_k_present", "a cache that only knows whether there is a top_k"};
    case Bug::kKeyWithoutDescale:
      return {"state_key_without_descale",
              "a cache of plans without factors of 8 bits in its keys"};
    case Bug::kKeyWithoutDescaleBlocks:
      return {"state_key_without_descale_blocks",
              "a cache that only knows which tensors have factors"};
    case Bug::kKeyWithoutLengths:
      return {"state_key_without_lengths", "a cache of plans without SEQ_LENS in its keys"};
    case Bug::kScaleBySizes:
      return {"state_scale_by_sizes", "keeps the scale of the first plan of the same sizes"};
    case Bug::kRoundsBySizes:
      return {"state_rounds_by_sizes", "rounds as the first plan of the same sizes chose"};
    case Bug::kRoundsDeclared:
      return {"state_rounds_declared", "the same, and declares that it is nondeterministic"};
    case Bug::kFirstRows:
      return {"state_first_seq_len_q", "computes no more rows than the first plan of the process"};
    case Bug::kFirstKeys:
      return {"state_first_seq_len_kv", "reads no more keys than the first plan of the process"};
    case Bug::kFirstWidth:
      return {"state_first_head_dim_v",
              "computes no more channels than the first plan of the process"};
    case Bug::kLengthsKept:
      return {"state_lengths_kept", "keeps the lengths that the first run of a shape had"};
    case Bug::kLastCreated:
      return {"state_last_created", "all plans have the scale of the one created last"};
    case Bug::kDiesWithAnother:
      return {"state_dies_with_another", "destroy takes what other plans need"};
    case Bug::kSharedByProblem:
      return {"state_shared_by_problem", "plans of one problem share their scratch memory"};
    case Bug::kOneAtATime:
      return {"state_one_at_a_time", "right, and refuses a second plan while one is alive"};
    case Bug::kOneAtATimeKept:
      return {"state_one_at_a_time_kept", "the same, with the scale of the first plan of a shape"};
  }
  return {"", ""};
}

/// A problem with memory of its own.
struct OwnProblem {
  attest_problem problem;
  attest_softmax_params params;
  std::vector<attest_tensor> tensor;

  explicit OwnProblem(const attest_problem& from)
      : problem(from),
        params(attest::params<attest_softmax_params>(from)),
        tensor(from.tensor, from.tensor + ATTEST_ROLES) {
    problem.params = &params;
    problem.tensor = tensor.data();
  }
  OwnProblem(const OwnProblem&) = delete;
};

constexpr int32_t kDescales[] = {ATTEST_Q_DESCALE, ATTEST_K_DESCALE, ATTEST_V_DESCALE};

constexpr bool is_f8(int32_t dtype) { return dtype == ATTEST_F8E4M3 || dtype == ATTEST_F8E5M2; }

/// A problem in 8 bits as one in float32: dense Q, K and V that have their factors in them.
class Widened {
 public:
  Widened(const attest_problem& from, void* const* given) : own_(from) {
    std::copy_n(given, ATTEST_ROLES, data_.begin());
    const attest::Softmax<attest::Any> a(from, given);
    float *q = make_dense(ATTEST_Q), *k = make_dense(ATTEST_K), *v = make_dense(ATTEST_V);
    for (int64_t b = 0; b < a.p.batch; ++b) {
      for (int64_t i = 0; i < a.length_q(b); ++i)
        for (int64_t h = 0; h < a.p.num_heads; ++h)
          widen(a.q, a.query(b, i), h, a.q_factor(b, h, i), q);
      for (int64_t j = 0; j < a.length_kv(b); ++j)
        for (int64_t h = 0; h < a.p.num_kv_heads; ++h) {
          widen(a.k, a.key(b, j), h, a.k_factor(b, h, j), k);
          widen(a.v, a.key(b, j), h, a.v_factor(b, h, j), v);
        }
    }
    for (const int32_t role : kDescales) {
      own_.tensor[static_cast<size_t>(role)] = {};
      data_[static_cast<size_t>(role)] = nullptr;
    }
  }
  const attest_problem& problem() const { return own_.problem; }
  void* const* data() const { return data_.data(); }

 private:
  float* make_dense(int32_t role) {
    attest_tensor& tensor = own_.tensor[static_cast<size_t>(role)];
    int64_t count = 1;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      tensor.stride[axis] = tensor.dim[axis] > 1 ? count : 0;
      count *= tensor.dim[axis];
    }
    tensor.dtype = ATTEST_F32;
    std::vector<float>& floats = floats_[role];
    floats.resize(static_cast<size_t>(count));
    data_[static_cast<size_t>(role)] = floats.data();
    return floats.data();
  }
  static void widen(const attest::View<attest::Any>& from, const attest::Cell& at, int64_t h,
                    float factor, float* to) {
    const int64_t width = from.dim(3);
    float* row = to + ((at.batch * from.dim(1) + h) * from.dim(2) + at.row) * width;
    for (int64_t d = 0; d < width; ++d)
      row[d] = factor * static_cast<float>(from(at.batch, h, at.row, d));
  }

  OwnProblem own_;
  std::array<void*, ATTEST_ROLES> data_{};
  std::map<int32_t, std::vector<float>> floats_;
};

/// Takes from a problem what the keys of a cache lack.
void forget(Bug bug, OwnProblem& own) {
  attest_softmax_params& p = own.params;
  const auto drop = [&](int32_t role) { own.tensor[static_cast<size_t>(role)] = {}; };
  const auto drop_keys = [&] {
    drop(ATTEST_K);
    drop(ATTEST_V);
  };
  switch (bug) {
    case Bug::kOneAtATimeKept:
    case Bug::kKeyWithoutScale: p.softmax_scale = 0; break;
    case Bug::kKeyWithoutMask: return drop(ATTEST_MASK);
    case Bug::kKeyWithoutWindow: p.window_left = p.window_right = -1; break;
    case Bug::kKeyWithoutWindowLeft: p.window_left = std::min<int64_t>(p.window_left, 0); break;
    case Bug::kKeyWithoutWindowRight: p.window_right = std::min<int64_t>(p.window_right, 0); break;
    case Bug::kKeyWithoutDiagonal: p.diagonal = ATTEST_TOP_LEFT; break;
    case Bug::kKeyWithoutOffset: p.diagonal_offset = 0; break;
    case Bug::kKeyOfOffsetPresent: p.diagonal_offset = p.diagonal_offset != 0; break;
    case Bug::kKeyWithoutSoftcap: p.softcap = 0; break;
    case Bug::kKeyOfSoftcapPresent: p.softcap = std::min(p.softcap, 1.0f); break;
    case Bug::kKeyWithoutBias: return drop(ATTEST_BIAS);
    case Bug::kKeyWithoutAlibi: return drop(ATTEST_ALIBI_SLOPES);
    case Bug::kKeyWithoutSinks: return drop(ATTEST_SINKS);
    case Bug::kKeyWithoutLse: return drop(ATTEST_LSE);
    case Bug::kKeyWithoutOrder: return drop(ATTEST_ORDER);
    case Bug::kKeyWithoutPatches: p.patch_size = 0; break;
    case Bug::kKeyOfPatchesPresent: p.patch_size = p.patch_size > 0; break;
    case Bug::kKeyWithoutShift: p.shift_y = p.shift_x = 0; break;
    case Bug::kKeyOfShiftPresent:
      p.shift_y = p.shift_y > 0;
      p.shift_x = p.shift_x > 0;
      break;
    case Bug::kKeyWithoutShiftBias: p.shift_bias = 0; break;
    case Bug::kKeyWithoutGridWindow:
      drop(ATTEST_REL_BIAS);
      p.window_height = 0;
      break;
    case Bug::kKeyWithoutRelBias: return drop(ATTEST_REL_BIAS);
    case Bug::kKeyWithoutDtype:
      for (attest_tensor& tensor : own.tensor)
        if (tensor.dtype != ATTEST_NONE) tensor.dtype = ATTEST_F32;
      break;
    case Bug::kKeyWithoutStrides:
      for (attest_tensor& tensor : own.tensor) std::memset(tensor.stride, 0, sizeof tensor.stride);
      break;
    case Bug::kKeyWithoutKvHeads:
      drop_keys();
      p.num_kv_heads = 0;
      break;
    case Bug::kKeyOfGroups:
      drop_keys();
      p.num_kv_heads = p.num_kv_heads < p.num_heads;
      break;
    case Bug::kKeyWithoutBlockMask:
      drop(ATTEST_BLOCK_MASK);
      p.block_q = p.block_kv = 0;
      break;
    case Bug::kKeyWithoutBlockSizes: {
      attest_tensor& mask = own.tensor[ATTEST_BLOCK_MASK];
      const int32_t dtype = mask.dtype;
      drop(ATTEST_BLOCK_MASK);
      mask.dtype = dtype;
      p.block_q = p.block_kv = 0;
      break;
    }
    case Bug::kKeyWithoutGlobal: p.global_tokens = 0; break;
    case Bug::kKeyOfGlobalPresent: p.global_tokens = p.global_tokens > 0; break;
    case Bug::kKeyWithoutTopK: p.top_k = 0; break;
    case Bug::kKeyOfTopKPresent: p.top_k = p.top_k > 0; break;
    case Bug::kKeyWithoutDescale:
      for (const int32_t role : kDescales) drop(role);
      p.descale_block_q = p.descale_block_kv = 0;
      break;
    case Bug::kKeyWithoutDescaleBlocks:
      for (const int32_t role : kDescales) {
        const int32_t dtype = own.tensor[static_cast<size_t>(role)].dtype;
        drop(role);
        own.tensor[static_cast<size_t>(role)].dtype = dtype;
      }
      p.descale_block_q = p.descale_block_kv = 0;
      break;
    case Bug::kKeyWithoutLengths:
      drop(ATTEST_SEQ_LENS_Q);
      drop(ATTEST_SEQ_LENS_KV);
      break;
    default: break;
  }
}

/// What a cache of plans looks a problem up by: all that matters, but for what the bug forgets.
std::string key_of(Bug bug, const attest_problem& problem) {
  OwnProblem own(problem);
  forget(bug, own);
  std::string key(reinterpret_cast<const char*>(&own.params), sizeof own.params);
  for (const attest_tensor& tensor : own.tensor)
    key.append(reinterpret_cast<const char*>(&tensor), sizeof tensor);
  return key;
}

constexpr bool has_cache(Bug bug) {
  return (bug >= Bug::kKeyWithoutScale && bug <= Bug::kKeyWithoutLengths) ||
         bug == Bug::kOneAtATimeKept;
}

/// What a cache looks a problem up by that knows its sizes alone.
std::array<int64_t, 5> sizes_of(const attest_softmax_params& p) {
  return {p.batch, p.num_heads, p.seq_len_q, p.seq_len_kv, p.head_dim};
}

/// What outlives a plan.
struct Process {
  std::optional<attest_softmax_params> first;
  std::map<std::array<int64_t, 5>, float> scale_of;
  std::map<std::array<int64_t, 5>, bool> rounds_up;
  std::map<std::string, std::unique_ptr<OwnProblem>> plans;
  std::map<std::string, std::vector<int32_t>> lengths;
  std::map<std::string, int64_t> alive_of;  // plans of one problem
  float last_scale = 0;
  int64_t destroyed = 0, alive = 0;
};

constexpr uint64_t kFeatures =
    ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_GQA | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW |
    ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS | ATTEST_WITH_MASK |
    ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES |
    ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES | ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS |
    ATTEST_WITH_STRIDES | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS | ATTEST_WITH_BLOCK_MASK |
    ATTEST_WITH_GLOBAL | ATTEST_WITH_TOP_K | ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_DESCALE;

/// Hides all but the top_k keys of a row. Equal keys at the edge count from the first one on, or
/// all of them.
template <class T>
class TopK : public attest::Softmax<T> {
 public:
  TopK(const attest_problem& problem, void* const* data) : attest::Softmax<T>(problem, data) {}

  float logit(float dot, int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (const std::array<int64_t, 3> row{b, h, i}; row != row_) choose(row);
    return counts_[static_cast<size_t>(j)] ? attest::Softmax<T>::logit(dot, b, h, i, j) : -INFINITY;
  }

 private:
  void choose(const std::array<int64_t, 3>& row) const {
    const attest::Softmax<T>& all = *this;
    const auto [b, h, i] = row;
    const attest::Keys keys = all.keys(b, i);
    std::vector<std::pair<float, int64_t>> logits;
    bool has_nan = false;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const float logit = mutants::logit(all, b, h, i, j);
      has_nan |= std::isnan(logit);
      if (logit != -INFINITY) logits.emplace_back(-logit, j);
    }
    row_ = row;
    counts_.assign(static_cast<size_t>(all.p.seq_len_kv), has_nan);
    if (has_nan) return;  // the row is NaN
    std::sort(logits.begin(), logits.end());
    const size_t count = std::min(logits.size(), static_cast<size_t>(all.p.top_k));
    for (size_t n = 0; n < logits.size(); ++n) {
      const bool ties = all.p.top_k_ties && count > 0 && logits[n].first == logits[count - 1].first;
      if (n < count || ties) counts_[static_cast<size_t>(logits[n].second)] = true;
    }
  }

  mutable std::array<int64_t, 3> row_{-1, -1, -1};
  mutable std::vector<bool> counts_;
};

template <Bug kBug>
class State {
 public:
  static constexpr attest::Info kInfo{.name = describe(kBug).name,
                                      .version = "1",
                                      .summary = describe(kBug).summary,
                                      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) |
                                                ATTEST_BIT(ATTEST_F8E4M3) |
                                                ATTEST_BIT(ATTEST_F8E5M2),
                                      .features = kFeatures};

  static const char* query(const attest_problem& problem, attest_support& support) {
    const int32_t of_q = problem.tensor[ATTEST_Q].dtype;
    for (const int32_t role : {ATTEST_K, ATTEST_V, ATTEST_O, ATTEST_BIAS, ATTEST_REL_BIAS}) {
      const bool stored = role == ATTEST_K || role == ATTEST_V;
      const int32_t dtype = problem.tensor[role].dtype,
                    wanted = is_f8(of_q) && !stored ? ATTEST_F32 : of_q;
      if (dtype != ATTEST_NONE && dtype != wanted)
        return "takes one dtype, or Q, K and V in one of 8 bits beside float32";
    }
    support.workspace_bytes = 64;
    if (kBug == Bug::kRoundsDeclared) support.arithmetic |= ATTEST_NONDETERMINISTIC;
    return nullptr;
  }

  explicit State(const attest_problem& given) : own_(std::make_unique<OwnProblem>(given)) {
    constexpr bool kOne = kBug == Bug::kOneAtATime || kBug == Bug::kOneAtATimeKept;
    if (kOne && process().alive > 0) throw attest::Refusal("has one plan at a time");
    if (has_cache(kBug)) {
      std::unique_ptr<OwnProblem>& kept = process().plans[key_of(kBug, given)];
      if (!kept) kept = std::make_unique<OwnProblem>(given);
      problem_ = &kept->problem;
    } else {
      problem_ = &own_->problem;
    }
    if (kBug == Bug::kScaleBySizes) {
      attest_softmax_params& p = own_->params;
      p.softmax_scale = process().scale_of.try_emplace(sizes_of(p), p.softmax_scale).first->second;
    }
    limit_to_first();
    if (kBug == Bug::kRoundsBySizes || kBug == Bug::kRoundsDeclared) {
      const attest_softmax_params& p = own_->params;
      const bool flat = p.softmax_scale * std::sqrt(static_cast<float>(p.head_dim)) < 0.75f;
      rounds_up_ = process().rounds_up.try_emplace(sizes_of(p), flat).first->second;
    }
    process().last_scale = own_->params.softmax_scale;
    destroyed_ = process().destroyed;
    ++process().alive;
    ++alive_of_mine();
  }
  State(State&& other) noexcept = default;
  ~State() {
    if (own_) {
      ++process().destroyed;
      --process().alive;
      --alive_of_mine();
    }
  }

  /// No template: the dtype is the cached problem's, as all that a plan has.
  void run(void* const* data, void* workspace, void* /*stream*/) {
    const int32_t dtype = problem_->tensor[ATTEST_Q].dtype;
    if (is_f8(dtype)) {
      const Widened wide(*problem_, data);
      run_as<float>(wide.problem(), wide.data(), workspace);
    } else if (dtype == ATTEST_F16) {
      run_as<attest::Half>(*problem_, data, workspace);
    } else {
      run_as<float>(*problem_, data, workspace);
    }
  }

 private:
  template <class T>
  void run_as(const attest_problem& problem, void* const* data, void* workspace) {
    ++runs_;
    void* used[ATTEST_ROLES];
    std::memcpy(used, data, sizeof used);
    if (kBug == Bug::kFirstAddresses)
      std::memcpy(runs_ == 1 ? first_ : used, runs_ == 1 ? used : first_, sizeof used);
    if (kBug == Bug::kLengthsKept) keep_lengths(used);
    if (kBug == Bug::kIntegersOfRun1)
      for (const int32_t role : {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_SEQ_LENS_Q,
                                 ATTEST_SEQ_LENS_KV, ATTEST_ORDER, ATTEST_PAGE_TABLE})
        keep_integers(role, used);
    if (kBug == Bug::kPagesOfRun1) keep_integers(ATTEST_PAGE_TABLE, used);
    if (kBug == Bug::kLastCreated) own_->params.softmax_scale = process().last_scale;
    const attest::Softmax<T> a(problem, used);
    if (kBug == Bug::kByAddress && kept_for_ == data[ATTEST_O]) return put(a);
    if (kBug == Bug::kMaximumInWorkspace)
      attend_from(a, *static_cast<const float*>(workspace));
    else if (a.p.top_k > 0)
      mutants::attend(TopK<T>(problem, used));
    else
      mutants::attend(a);
    if (kBug == Bug::kSlowFromRun10) std::this_thread::sleep_for(std::chrono::milliseconds(12));
    if (wrong(static_cast<float*>(workspace)))
      a.o(0, 0, 0, 0) = static_cast<float>(a.o(0, 0, 0, 0)) + 1.0f;
    if (rounds_up_) a.o(0, 0, 0, 0) = std::nextafter(static_cast<float>(a.o(0, 0, 0, 0)), INFINITY);
    if (kBug == Bug::kByAddress) keep(a, data[ATTEST_O]);
  }

  void limit_to_first() {
    attest_softmax_params& p = own_->params;
    if (!process().first) process().first = p;
    const attest_softmax_params& first = *process().first;
    if (kBug == Bug::kFirstRows) p.seq_len_q = std::min(p.seq_len_q, first.seq_len_q);
    if (kBug == Bug::kFirstKeys) p.seq_len_kv = std::min(p.seq_len_kv, first.seq_len_kv);
    if (kBug == Bug::kFirstWidth) p.head_dim_v = std::min(p.head_dim_v, first.head_dim_v);
  }

  static Process& process() {
    static Process all;
    return all;
  }

  int64_t& alive_of_mine() { return process().alive_of[key_of(Bug::kNone, own_->problem)]; }

  bool wrong(float* workspace) {
    const float found = workspace[0];
    int32_t word;
    std::memcpy(&word, workspace, sizeof word);
    switch (kBug) {
      case Bug::kRun2: return runs_ == 2;
      case Bug::kRun3: return runs_ == 3;
      case Bug::kRun7: return runs_ == 7;
      case Bug::kRun13: return runs_ == 13;
      case Bug::kEvery14: return runs_ % 14 == 0;
      case Bug::kFromRun10:
      case Bug::kSlowFromRun10: return runs_ >= 10;
      case Bug::kFromRun50: return runs_ >= 50;
      case Bug::kFromRun60: return runs_ >= 60;
      case Bug::kFractions: return found > 1e-6f && found < 1;
      case Bug::kLarge: return found > 1e6f;
      case Bug::kOne: return found == 1;
      case Bug::kZero: return word == 0;
      case Bug::kIntegerOne: return word == 1;
      case Bug::kSemaphoreLeft:
      case Bug::kSemaphoreKept: return semaphore(workspace);
      case Bug::kDiesWithAnother: return process().destroyed != destroyed_;
      case Bug::kSharedByProblem: return alive_of_mine() > 1;
      default: return false;
    }
  }

  /// The maximum of a whole row first, which begins with a number that was found.
  template <class T>
  static void attend_from(const attest::Softmax<T>& a, float found) {
    std::vector<float> sum;
    for (int64_t b = 0; b < a.p.batch; ++b)
      for (int64_t h = 0; h < a.p.num_heads; ++h)
        for (int64_t i = 0; i < a.rows(b); ++i) {
          float top = std::fabs(found) < 1 ? found : -INFINITY;
          const attest::Keys keys = a.keys(b, i);
          for (int64_t j = keys.begin; j < keys.end; ++j)
            top = std::max(top, mutants::logit(a, b, h, i, j));
          mutants::attend_row(a, b, h, i, sum, false, top);
        }
  }

  /// Whether the semaphore was not free.
  bool semaphore(float* workspace) {
    if (runs_ == 1) workspace[0] = 0;
    const bool taken = workspace[0] != 0;
    workspace[0] = kBug == Bug::kSemaphoreLeft ? 1.0f : 0.0f;
    // One that was not free stays so: whoever counts up to a number of blocks never gets there.
    return taken && (kBug == Bug::kSemaphoreLeft || runs_ > 2);
  }

  void keep_lengths(void** data) {
    for (const int32_t role : {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV}) {
      if (!data[role]) continue;
      std::vector<int32_t>& kept =
          process().lengths[key_of(Bug::kNone, own_->problem) + std::to_string(role)];
      const auto* given = static_cast<const int32_t*>(data[role]);
      if (kept.empty()) kept.assign(given, given + own_->params.batch);
      data[role] = kept.data();
    }
  }

  /// Those of the plan's first run take the place of the run's. An entry that names no page becomes
  /// page 0, so that no run reads beyond the pool.
  void keep_integers(int32_t role, void** data) {
    if (!data[role]) return;
    const attest_tensor& tensor = own_->tensor[static_cast<size_t>(role)];
    int64_t count = 1;
    for (int axis = 0; axis < tensor.rank; ++axis)
      count += (tensor.dim[axis] - 1) * tensor.stride[axis];
    std::vector<int32_t>& kept = integers_[role];
    const auto* given = static_cast<const int32_t*>(data[role]);
    if (kept.empty())
      for (int64_t n = 0; n < count; ++n) kept.push_back(std::max(given[n], 0));
    data[role] = kept.data();
  }

  template <class T>
  void keep(const attest::Softmax<T>& a, const void* address) {
    kept_.clear();
    kept_for_ = address;
    each(a, [&](T& element) { kept_.push_back(static_cast<float>(element)); });
  }
  template <class T>
  void put(const attest::Softmax<T>& a) const {
    size_t at = 0;
    each(a, [&](T& element) { element = kept_[at++]; });
  }
  template <class T, class Visit>
  static void each(const attest::Softmax<T>& a, const Visit& visit) {
    for (int64_t b = 0; b < a.p.batch; ++b)
      for (int64_t h = 0; h < a.p.num_heads; ++h)
        for (int64_t i = 0; i < a.p.seq_len_q; ++i)
          for (int64_t d = 0; d < a.p.head_dim_v; ++d) visit(a.o(b, h, i, d));
  }

  std::unique_ptr<OwnProblem> own_;
  const attest_problem* problem_ = nullptr;
  int64_t runs_ = 0, destroyed_ = 0;
  bool rounds_up_ = false;
  void* first_[ATTEST_ROLES]{};
  std::map<int32_t, std::vector<int32_t>> integers_;
  std::vector<float> kept_;
  const void* kept_for_ = nullptr;
};

template <size_t... kIndex>
const attest_impl* table_of(size_t index, std::index_sequence<kIndex...>) {
  static const attest_impl* const tables[] = {attest::table<State<static_cast<Bug>(kIndex)>>()...};
  return index < sizeof...(kIndex) ? tables[index] : nullptr;
}

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  constexpr auto kBugs = static_cast<size_t>(Bug::kOneAtATimeKept) + 1;  // the last one
  return table_of(index, std::make_index_sequence<kBugs>());
}
