// Softmax attention to Q, K and V in 8 bits that is wrong: one bug for each table. What is right
// applies factors late: those of Q and K to the score, that of V to the probability. An
// implementation refuses problems where its bug does nothing. With ATTEST_F8_OPERANDS all declare
// that they multiply Q and K in the 8 bits that these are stored in.
#include <algorithm>
#include <cmath>
#include <vector>

#include "mutants/features/planted.hpp"

namespace {

#ifdef ATTEST_F8_OPERANDS
constexpr bool kDeclaresOperands = true;
#else
constexpr bool kDeclaresOperands = false;
#endif

enum class Bug {
  kNone,
  kNoQFactor,
  kNoKFactor,
  kNoVFactor,
  kKFactorForV,
  kReciprocal,
  kFactorTwice,
  kBiasOf8,
  kOtherFormat,
  kFlushes,
  kNoNan,
  kNoInfinity,
  kTopExponent,
  kClipsAt240,
  kNoSign,
  kNextBlock,
  kFirstOfTile,
  kLastVFactor,
  kFirstBlock,
  kFactorsOfHead0,
  kFactorsModulo,
  kFactorsOfSequence0,
  kBlocksOfRows,
  kFactorsAfterSoftcap,
  kFactorsOnBias,
  kRoundsP,
  kRoundsQ,
  kHalfScores,
  kTimesZero,
  kHidesStored,
  kCutsStored,
  kMaxOfStored,
  kNormaliserOff,
  kValuesCut,
};

constexpr mutants::PlantedBug kBugs[] = {
    {"f8_none", "plain attention, healthy"},
    {"f8_no_q_factor", "the factors of Q are forgotten"},
    {"f8_no_k_factor", "the factors of K are forgotten"},
    {"f8_no_v_factor", "the factors of V are forgotten"},
    {"f8_k_factor_for_v", "V has the factors of K"},
    {"f8_reciprocal", "V is divided by its factors"},
    {"f8_factor_twice", "the factors of K are applied twice"},
    {"f8_bias_of_8", "the exponent's bias of f8e4m3 is 8, as in its variant without -0"},
    {"f8_other_format", "codes are read as those of the other format"},
    {"f8_flushes", "subnormal codes are read as 0"},
    {"f8_no_nan", "codes of NaN are read as numbers"},
    {"f8_no_infinity", "codes of infinity are read as numbers"},
    {"f8_top_exponent", "the top exponent of f8e4m3 is read as NaN, as in IEEE formats"},
    {"f8_clips_at_240", "numbers of f8e4m3 end at 240"},
    {"f8_no_sign", "the sign of V is lost where its exponent is 0"},
    {"f8_next_block", "the last key of a block has the factors of the next one"},
    {"f8_first_of_tile", "16 keys have the factors of the first"},
    {"f8_last_v_factor", "the output has V's factor of the last key"},
    {"f8_first_block", "all queries have the factor of the first block"},
    {"f8_factors_of_head_0", "all heads have the factors of the first"},
    {"f8_factors_modulo", "query head h has the factors of key head h % num_kv_heads"},
    {"f8_factors_of_sequence_0", "all sequences have the factors of the first"},
    {"f8_blocks_of_rows", "blocks count rows of packed tokens, not positions"},
    {"f8_factors_after_softcap", "the softcap bends what is stored, and factors come after it"},
    {"f8_factors_on_bias", "factors multiply the bias, too"},
    {"f8_rounds_p", "probabilities are rounded to f8e4m3, undeclared"},
    {"f8_rounds_q", "Q times its factors is rounded to f8e4m3, undeclared"},
    {"f8_half_scores", "products of what is stored are rounded to f16, undeclared"},
    {"f8_times_zero", "hidden keys are multiplied by 0: NaN leaks"},
    {"f8_hides_stored", "a mask hides by a product of -1e4, which factors make small"},
    {"f8_cuts_stored", "products of what is stored are cut to -65,504 .. 65,504"},
    {"f8_max_of_stored", "the maximum starts at a product of -3e4, which factors make small"},
    {"f8_normaliser_off", "the normaliser is a millionth too large"},
    {"f8_values_cut", "values beyond 40 are cut to it"},
};
static_assert(std::size(kBugs) == size_t(Bug::kValuesCut) + 1);

bool does_something(Bug bug, const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const auto has = [&](int role) { return problem.tensor[role].dtype != ATTEST_NONE; };
  const auto dim = [&](int role, int axis) {
    return has(role) ? problem.tensor[role].dim[axis] : 1;
  };
  const bool of_q = has(ATTEST_Q_DESCALE), of_k = has(ATTEST_K_DESCALE),
             of_v = has(ATTEST_V_DESCALE), e4m3 = problem.tensor[ATTEST_Q].dtype == ATTEST_F8E4M3;
  if (problem.tensor[ATTEST_Q].dtype != ATTEST_F8E4M3 &&
      problem.tensor[ATTEST_Q].dtype != ATTEST_F8E5M2)
    return false;
  switch (bug) {
    case Bug::kNoQFactor: return of_q;
    case Bug::kNoKFactor:
    case Bug::kFactorTwice: return of_k;
    case Bug::kNoVFactor:
    case Bug::kReciprocal: return of_v;
    case Bug::kKFactorForV: return of_k && of_v;
    case Bug::kBiasOf8:
    case Bug::kTopExponent:
    case Bug::kClipsAt240: return e4m3;
    case Bug::kNoInfinity: return !e4m3;
    case Bug::kNextBlock:
    case Bug::kFirstOfTile:
    case Bug::kLastVFactor: return dim(ATTEST_V_DESCALE, 2) > 1;
    case Bug::kFirstBlock: return dim(ATTEST_Q_DESCALE, 2) > 1;
    case Bug::kFactorsOfHead0: return dim(ATTEST_V_DESCALE, 1) > 1;
    case Bug::kFactorsModulo: return dim(ATTEST_V_DESCALE, 1) > 1 && p.num_heads > p.num_kv_heads;
    case Bug::kFactorsOfSequence0: return dim(ATTEST_V_DESCALE, 0) > 1;
    case Bug::kBlocksOfRows:
      return dim(ATTEST_V_DESCALE, 2) > 1 && has(ATTEST_CU_SEQLENS_KV) && p.batch > 1;
    case Bug::kFactorsAfterSoftcap: return (of_q || of_k) && p.softcap > 0;
    case Bug::kFactorsOnBias: return (of_q || of_k) && has(ATTEST_BIAS);
    case Bug::kRoundsQ: return of_q && e4m3;
    case Bug::kTimesZero: return has(ATTEST_MASK);
    case Bug::kHidesStored: return has(ATTEST_MASK) && of_q && of_k;
    case Bug::kCutsStored:
    case Bug::kMaxOfStored: return of_q && of_k;
    default: return true;
  }
}

// The nearest number of f8e4m3, saturated at 448.
float rounded_to_e4m3(float x) {
  int exponent = 0;
  if (x == 0 || !std::isfinite(x)) return x;
  std::frexp(x, &exponent);
  const int last = std::max(exponent - 4, -9);
  const float nearest = std::ldexp(std::nearbyint(std::ldexp(x, -last)), last);
  return std::clamp(nearest, -448.0f, 448.0f);
}

class F8 {
 public:
  F8(Bug bug, const attest_problem& problem, void* const* data)
      : bug_(bug),
        e4m3_((problem.tensor[ATTEST_Q].dtype == ATTEST_F8E4M3) != (bug == Bug::kOtherFormat)),
        a_(problem, data),
        q_(problem, data, ATTEST_Q),
        k_(problem, data, ATTEST_K),
        v_(problem, data, ATTEST_V),
        cu_seqlens_kv_(problem, data, ATTEST_CU_SEQLENS_KV) {}

  void attend() {
    for (int64_t b = 0; b < a_.p.batch; ++b)
      for (int64_t h = 0; h < a_.p.num_heads; ++h) {
        read_keys(b, a_.kv_head(h));
        for (int64_t i = 0; i < a_.rows(b); ++i) attend_row(b, h, i);
      }
  }

 private:
  bool is(Bug bug) const { return bug_ == bug; }

  float number(uint8_t code, bool value = false) const {
    const int magnitude = code & 0x7f, places = e4m3_ ? 8 : 4, exponent = magnitude / places,
              mantissa = magnitude % places;
    if (is(Bug::kFlushes) && exponent == 0) return 0;
    if (is(Bug::kTopExponent) && exponent == 15) return NAN;
    const bool no_number = e4m3_ ? magnitude == 0x7f : exponent == 31;
    float x = exponent == 0
                  ? std::ldexp(static_cast<float>(mantissa), e4m3_ ? -9 : -16)
                  : std::ldexp(static_cast<float>(places + mantissa), exponent - (e4m3_ ? 10 : 17));
    if (is(Bug::kBiasOf8)) x /= 2;
    if (is(Bug::kClipsAt240)) x = std::min(x, 240.0f);
    if (is(Bug::kValuesCut) && value) x = std::min(x, 40.0f);
    const bool infinite = no_number && !e4m3_ && mantissa == 0;
    if (infinite && !is(Bug::kNoInfinity)) x = INFINITY;
    if (no_number && !infinite && !is(Bug::kNoNan)) x = NAN;
    const bool negative = code >= 0x80 && !(is(Bug::kNoSign) && value && exponent == 0);
    return negative ? -x : x;
  }

  // The index of a key's factor along the last dim, which has `blocks` blocks.
  int64_t block_of(int64_t b, int64_t j, int64_t blocks) const {
    const int64_t size = a_.p.descale_block_kv;
    if (size == 0) return 0;
    if (is(Bug::kFirstOfTile)) j = j / 16 * 16;
    if (is(Bug::kNextBlock)) ++j;
    if (is(Bug::kBlocksOfRows) && cu_seqlens_kv_) j += cu_seqlens_kv_(b);
    return std::min(a_.token(std::min(j, a_.p.seq_len_kv - 1)) / size, blocks - 1);
  }
  float factor(const attest::View<const float>& of, int64_t b, int64_t head, int64_t j) const {
    if (!of) return 1;
    if (is(Bug::kFactorsOfSequence0)) b = 0;
    if (is(Bug::kFactorsOfHead0)) head = 0;
    return of(b, head, block_of(b, j, of.dim(2)));
  }

  void read_keys(int64_t b, int64_t head) {
    const int64_t keys = a_.length_kv(b), dim = a_.p.head_dim, dim_v = a_.p.head_dim_v;
    keys_.resize(static_cast<size_t>(keys * dim));
    values_.resize(static_cast<size_t>(keys * dim_v));
    for (int64_t j = 0; j < keys; ++j) {
      const attest::Cell at = a_.key(b, j);
      for (int64_t d = 0; d < dim; ++d)
        keys_[static_cast<size_t>(j * dim + d)] = number(k_(at.batch, head, at.row, d));
      for (int64_t d = 0; d < dim_v; ++d)
        values_[static_cast<size_t>(j * dim_v + d)] = number(v_(at.batch, head, at.row, d), true);
    }
  }

  float q_factor(int64_t b, int64_t h, int64_t i) const {
    if (is(Bug::kNoQFactor)) return 1;
    return a_.q_factor(b, h, is(Bug::kFirstBlock) ? 0 : i);
  }
  int64_t factor_head(int64_t h) const {
    return is(Bug::kFactorsModulo) ? h % a_.p.num_kv_heads : a_.kv_head(h);
  }
  float k_factor(int64_t b, int64_t h, int64_t j) const {
    const float right = factor(a_.k_descale, b, factor_head(h), j);
    if (is(Bug::kNoKFactor)) return 1;
    return is(Bug::kFactorTwice) ? right * right : right;
  }
  float v_factor(int64_t b, int64_t h, int64_t j) const {
    if (is(Bug::kNoVFactor)) return 1;
    const float right =
        factor(is(Bug::kKFactorForV) ? a_.k_descale : a_.v_descale, b, factor_head(h), j);
    return is(Bug::kReciprocal) ? 1 / right : right;
  }

  float logit(float product, float factors, int64_t b, int64_t h, int64_t i, int64_t j) const {
    const float right = a_.logit(product * factors, b, h, i, j);
    if (is(Bug::kHidesStored) && right == -INFINITY) return a_.p.softmax_scale * -1e4f * factors;
    if (right == -INFINITY) return right;
    if (is(Bug::kMaxOfStored)) return std::max(right, a_.p.softmax_scale * -3e4f * factors);
    if (is(Bug::kFactorsAfterSoftcap)) {
      const float term = a_.pair_term(b, h, i, j);
      return factors * (a_.logit(product, b, h, i, j) - term) + term;
    }
    return is(Bug::kFactorsOnBias) ? right + (factors - 1) * a_.pair_term(b, h, i, j) : right;
  }

  void attend_row(int64_t b, int64_t h, int64_t i) {
    const attest::Cell at = a_.query(b, i);
    const attest::Keys keys = a_.keys(b, i);
    const int64_t dim = a_.p.head_dim, dim_v = a_.p.head_dim_v;
    float of_query = q_factor(b, h, i);
    std::vector<float> query(static_cast<size_t>(dim)), sum(static_cast<size_t>(dim_v), 0.0f);
    for (int64_t d = 0; d < dim; ++d) {
      float& x = query[static_cast<size_t>(d)] = number(q_(at.batch, h, at.row, d));
      if (is(Bug::kRoundsQ)) x = rounded_to_e4m3(x * of_query);
    }
    if (is(Bug::kRoundsQ)) of_query = 1;
    std::vector<float> logits(static_cast<size_t>(keys.end - keys.begin));
    float top = -INFINITY;
    bool nan = false;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      float product = 0;
      for (int64_t d = 0; d < dim; ++d)
        product += query[static_cast<size_t>(d)] * keys_[static_cast<size_t>(j * dim + d)];
      if (is(Bug::kHalfScores)) {
        attest::Half half{};
        half = product;
        product = half;
      }
      if (is(Bug::kCutsStored)) product = std::clamp(product, -65504.0f, 65504.0f);
      float& x = logits[static_cast<size_t>(j - keys.begin)] =
          logit(product, of_query * k_factor(b, h, j), b, h, i, j);
      top = std::max(top, x);
      nan |= std::isnan(x);
    }
    if (nan) top = NAN;
    float total = 0;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const float x = logits[static_cast<size_t>(j - keys.begin)];
      if (x == -INFINITY && !is(Bug::kTimesZero)) continue;
      float weight = x == -INFINITY ? 0 : std::exp(x - top);
      total += weight;
      if (is(Bug::kRoundsP)) weight = rounded_to_e4m3(weight);
      weight *= is(Bug::kLastVFactor) ? 1 : v_factor(b, h, j);
      for (int64_t d = 0; d < dim_v; ++d)
        sum[static_cast<size_t>(d)] += weight * values_[static_cast<size_t>(j * dim_v + d)];
    }
    if (is(Bug::kNormaliserOff)) total *= 1.000001f;
    const float last = is(Bug::kLastVFactor) && keys.end > 0 ? v_factor(b, h, keys.end - 1) : 1;
    for (int64_t d = 0; d < dim_v; ++d)
      a_.o(at.batch, h, at.row, d) = total == 0 ? 0 : last * sum[static_cast<size_t>(d)] / total;
    if (a_.lse) a_.lse(at.batch, h, at.row) = total == 0 ? -INFINITY : top + std::log(total);
  }

  const Bug bug_;
  const bool e4m3_;
  const attest::Softmax<attest::Any> a_;
  const attest::View<const uint8_t> q_, k_, v_;
  const attest::View<const int32_t> cu_seqlens_kv_;
  std::vector<float> keys_, values_;  // of one head, as stored
};

constexpr uint64_t kDtypes =
    mutants::kFloats | ATTEST_BIT(ATTEST_F8E4M3) | ATTEST_BIT(ATTEST_F8E5M2);
constexpr uint64_t kFeatures =
    ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW |
    ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS | ATTEST_WITH_MASK |
    ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS | ATTEST_WITH_STRIDES |
    ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_UNALIGNED | ATTEST_WITH_DESCALE;

template <size_t kIndex>
struct Implementation : mutants::Planted<Bug{kIndex}, kBugs, does_something, kFeatures, kDtypes> {
  static const char* query(const attest_problem& asked, attest_support& support) {
    if (kDeclaresOperands) support.stage[ATTEST_SOFTMAX_QK].dtype = asked.tensor[ATTEST_Q].dtype;
    return Implementation::Planted::query(asked, support);
  }
  void run(void* const* data, void* /*workspace*/, void* /*stream*/) const {
    F8(this->kBug, this->problem, data).attend();
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return mutants::table_at<Implementation, std::size(kBugs)>(index);
}
