// Inputs of the codebook fill.
#include "core/operations/softmax/closed_form/golden/alibi.hpp"
#include "core/operations/softmax/closed_form/values.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr float kDecoyFactor = 1.5f;
// What a sink weighs about half of a peaked row with, beside as many flat keys
constexpr double kPeakedSink = 20;
// Above a softcap, by which a sink leads: BIAS and REL_BIAS add up to 640 each.
constexpr double kLeadingSink = 2000;
enum FillStream : uint64_t {
  kValuesStream = 100,
  kDecoysStream,
  kLevelsStream,
  kSlopesStream,
  kSinksStream
};  // of the fill's seed; Codebook has its own

int64_t cells_a_head(const Tensor& tensor) { return tensor.spec.dim[0] * tensor.spec.dim[2]; }

// The best key code for every query code.
std::vector<uint8_t> best_codes(const std::vector<float>& queries, const std::vector<float>& keys,
                                size_t codes, bool negative) {
  const size_t head_dim = keys.size() / codes;
  std::vector<uint8_t> best(queries.size() / head_dim);
  for (size_t h = 0; h < best.size(); ++h) {
    double top = 0;
    for (size_t g = 0; g < codes; ++g) {
      double dot = 0;
      for (size_t c = 0; c < head_dim; ++c)
        dot += double(queries[h * head_dim + c]) * double(keys[g * head_dim + c]);
      if (negative) dot = -dot;
      if (g == 0 || dot > top) {
        top = dot;
        best[h] = uint8_t(g);
      }
    }
  }
  return best;
}

void fill_queries(const Codebook& book, const Tensor& q) {
  const int64_t rows = q.spec.dim[2], head_dim = q.spec.dim[3];
  for (int64_t head = 0; head < q.spec.dim[1]; ++head) {
    const std::vector<float> vectors = book.queries(head);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < cells_a_head(q); ++r) {
      const Cell cell{r / rows, r % rows};
      store_vector(q, head, cell, &vectors[size_t(book.query_code(head, cell) * head_dim)]);
    }
  }
}

// Keys that nobody sees get the best score of some query code, and more.
void fill_key_codes(const Codebook& book, const Tensor& k, const attest_softmax_params& p,
                    uint64_t seed) {
  const int64_t rows = k.spec.dim[2], head_dim = k.spec.dim[3];
  for (int64_t head = 0; head < k.spec.dim[1]; ++head) {
    const std::vector<float> vectors = book.keys(head);
    const std::vector<uint8_t> best =
        best_codes(book.queries(head * (p.num_heads / p.num_kv_heads)), vectors,
                   size_t(book.key_codes()), p.softmax_scale < 0);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < cells_a_head(k); ++r) {
      const Cell cell{r / rows, r % rows};
      const uint8_t code = book.key_code(head, cell);
      if (code != Codebook::kUnseen) {
        store_vector(k, head, cell, &vectors[size_t(code * head_dim)]);
        continue;
      }
      if (book.kind() == Codebook::Kind::kHuge) {
        const std::vector<float> wild(size_t(head_dim),
                                      wild_value(seed, uint64_t(head * cells_a_head(k) + r)));
        store_vector(k, head, cell, wild.data());
        continue;
      }
      const uint8_t decoy =
          best[size_t(random_below(seed, uint64_t(head * cells_a_head(k) + r), best.size()))];
      std::vector<float> vector(vectors.begin() + decoy * head_dim,
                                vectors.begin() + (decoy + 1) * head_dim);
      for (float& x : vector) x *= kDecoyFactor;
      store_vector(k, head, cell, vector.data());
    }
  }
}

}  // namespace

std::vector<std::string> codebook_fills(const Problem& problem) {
  std::vector<std::string> names{"codebook", "codebook_peaked", "huge", "rising"};
  // Values cancel over blocks of keys to which nothing different is added.
  if (problem.as<attest_softmax_params>().shift_bias == 0 &&
      !present(problem.tensor[ATTEST_ALIBI_SLOPES]) && !present(problem.tensor[ATTEST_REL_BIAS]))
    names.emplace_back("cancelling");
  for (const char* name : {"edges", "flat", "tiny", "equal"}) names.emplace_back(name);
  return names;
}

// The closed form with ALiBi has no sinks, and weighs all keys relative to the best score of any
// code: where a row does not see that one, most weights of "huge" and "rising" would be 0.
bool has_closed_form(const Problem& problem, const Fill& fill) {
  if (!Codebook::knows(fill.name) || !ScoreLevels::fit(problem)) return false;
  if (leads_in_term(problem, fill)) return false;  // they are no levels
  if (!present(problem.tensor[ATTEST_ALIBI_SLOPES])) return true;
  const Codebook::Kind kind = Codebook::kind_of(fill.name);
  return kind != Codebook::Kind::kHuge && kind != Codebook::Kind::kRising &&
         !present(problem.tensor[ATTEST_SINKS]) && codebook::AlibiRows::fit(problem);
}

void fill_codebook(const Problem& problem, const Fill& fill, const Tensors& tensors,
                   bool only_own) {
  fill_tables(problem, fill, tensors, only_own);
  const Codebook::Kind kind = Codebook::kind_of(fill.name);
  ScoreLevels::fill(problem, random_bits(fill.seed, kLevelsStream), tensors,
                    Codebook::level_unit(kind), int64_t(kind));
  if (tensors[ATTEST_ALIBI_SLOPES])
    fill_slopes(problem, random_bits(fill.seed, kSlopesStream), tensors[ATTEST_ALIBI_SLOPES]);
  const double lift = kind == Codebook::Kind::kPeaked ? kPeakedSink : 0;
  if (tensors[ATTEST_SINKS])
    fill_sinks(problem, random_bits(fill.seed, kSinksStream), tensors[ATTEST_SINKS], lift);
  // The logits of other problems are far from any sink.
  const auto softcap = double(problem.as<attest_softmax_params>().softcap);
  if (tensors[ATTEST_SINKS] && kind == Codebook::Kind::kHuge && softcap > 0)
    lift_sinks(tensors[ATTEST_SINKS], softcap + kLeadingSink, 2);
  const Codebook book(problem, fill, tensors);
  if (leads_in_term(problem, fill)) book.raise_term(tensors);
  fill_queries(book, tensors[ATTEST_Q]);
  fill_key_codes(book, tensors[ATTEST_K], problem.as<attest_softmax_params>(),
                 random_bits(fill.seed, kDecoysStream));
  fill_values(problem, book, tensors, random_bits(fill.seed, kValuesStream));
}

}  // namespace attest::core
