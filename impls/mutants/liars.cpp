// liars: kernels that declare float32 and compute in less in one place, and their honest twins, which differ in nothing but that
// they say so. attest has to fail every liar, whatever the tensors are stored in, and to pass every twin.
#include "honest/tables.hpp"

namespace {

using namespace honest;

enum class Place { kQk, kScore, kProbability, kPv, kAccumulator };

constexpr Arithmetic with(Place place, int32_t dtype) {
  Arithmetic a = kFloat;
  switch (place) {
    case Place::kQk: return a.qk = dtype, a;
    case Place::kScore: return a.score = dtype, a;
    case Place::kProbability: return a.probability = dtype, a;
    case Place::kPv: return a.pv = dtype, a;
    case Place::kAccumulator: return a.accumulator = dtype, a;
  }
  return a;
}

// Q is scaled before it is rounded, so that there is something to round where Q is stored in the operand's dtype already.
constexpr Method method(const char* name, const char* summary, Place place, int32_t dtype, bool lies) {
  Method made = honest_method(name, summary, with(place, dtype), 64);
  if (lies) made.declares = kFloat;
  made.folds_scale = place == Place::kQk;
  return made;
}

#define PAIR(place, place_name, dtype, dtype_name)                                                                      \
  constexpr Method kLiar_##place_name##_##dtype_name =                                                                  \
      method("liar_" #place_name "_" #dtype_name, "declares f32, computes in " #dtype_name, Place::place, dtype, true); \
  constexpr Method kTwin_##place_name##_##dtype_name =                                                                  \
      method("twin_" #place_name "_" #dtype_name, "computes in " #dtype_name " and declares it", Place::place, dtype, false);
#define PAIRS(place, place_name)             \
  PAIR(place, place_name, ATTEST_BF16, bf16) \
  PAIR(place, place_name, ATTEST_F16, f16)   \
  PAIR(place, place_name, ATTEST_TF32, tf32)
PAIRS(kQk, qk)
PAIRS(kScore, score)
PAIRS(kProbability, probability)
PAIRS(kPv, pv)
PAIRS(kAccumulator, accumulator)

// The same of linear attention: phi of Q, phi of K, the state (and V), the sums over keys.
enum class LinearPlace { kPhiQ, kPhiK, kState, kSum };

constexpr Method linear_method(const char* name, const char* summary, LinearPlace place, int32_t dtype, bool lies) {
  const Place field = place == LinearPlace::kState ? Place::kPv : place == LinearPlace::kSum ? Place::kAccumulator : Place::kQk;
  Method made = honest_method(name, summary, with(field, dtype), 64);
  if (lies) made.declares = kFloat;
  made.rounds_q = place == LinearPlace::kPhiQ, made.rounds_k = place == LinearPlace::kPhiK;
  return made;
}

#define LINEAR_PAIR(place, place_name, dtype, dtype_name)                                                                     \
  constexpr Method kLiar_linear_##place_name##_##dtype_name = linear_method(                                                  \
      "liar_linear_" #place_name "_" #dtype_name, "declares f32, computes in " #dtype_name, LinearPlace::place, dtype, true); \
  constexpr Method kTwin_linear_##place_name##_##dtype_name =                                                                 \
      linear_method("twin_linear_" #place_name "_" #dtype_name, "computes in " #dtype_name " and declares it",                \
                    LinearPlace::place, dtype, false);
#define LINEAR_PAIRS(place, place_name)             \
  LINEAR_PAIR(place, place_name, ATTEST_BF16, bf16) \
  LINEAR_PAIR(place, place_name, ATTEST_F16, f16)   \
  LINEAR_PAIR(place, place_name, ATTEST_TF32, tf32)
LINEAR_PAIRS(kPhiQ, phi_q)
LINEAR_PAIRS(kPhiK, phi_k)
LINEAR_PAIRS(kState, state)
LINEAR_PAIRS(kSum, sum)

#define TABLES_OF(place, dtype) \
  attest::table<Softmax<kLiar_##place##_##dtype>>(), attest::table<Softmax<kTwin_##place##_##dtype>>()
#define TABLES(place) TABLES_OF(place, bf16), TABLES_OF(place, f16), TABLES_OF(place, tf32)
#define LINEAR_OF(place, dtype) \
  attest::table<Linear<kLiar_linear_##place##_##dtype>>(), attest::table<Linear<kTwin_linear_##place##_##dtype>>()
#define LINEAR(place) LINEAR_OF(place, bf16), LINEAR_OF(place, f16), LINEAR_OF(place, tf32)

}  // namespace

ATTEST_PLUGIN(TABLES(qk), TABLES(score), TABLES(probability), TABLES(pv), TABLES(accumulator), LINEAR(phi_q), LINEAR(phi_k),
              LINEAR(state), LINEAR(sum))
