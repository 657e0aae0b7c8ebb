// liars: kernels that declare float32 and compute in less in one place, and their honest twins,
// which differ in nothing but that they say so. attest has to fail every liar, whatever the tensors
// are stored in, and to pass every twin.
#include "honest/tables.hpp"

namespace {

using namespace honest;

enum class Place { kQk, kScore, kProbability, kPv, kAccumulator };

constexpr Arithmetic with(Place place, int32_t dtype) {
  Arithmetic a = kFloat;
  switch (place) {
    case Place::kQk: a.qk = dtype; break;
    case Place::kScore: a.score = dtype; break;
    case Place::kProbability: a.probability = dtype; break;
    case Place::kPv: a.pv = dtype; break;
    case Place::kAccumulator: a.accumulator = dtype; break;
  }
  return a;
}

// Q is scaled before it is rounded, so that there is something to round where Q is stored in the
// operand's dtype already.
constexpr Method method(const char* name, const char* summary, Place place, int32_t dtype,
                        bool lies) {
  Method made = honest_method(name, summary, with(place, dtype), 64);
  if (lies) made.declares = kFloat;
  made.folds_scale = place == Place::kQk;
  return made;
}

// The normaliser alone: rounded after each tile, or cut before it divides. Who says so declares the
// accumulator's dtype.
constexpr Method normaliser(const char* name, const char* summary, int32_t dtype, bool cuts,
                            bool lies) {
  Method made = method(name, summary, Place::kAccumulator, dtype, lies);
  made.computes = kFloat;
  made.normaliser = dtype;
  made.cuts_normaliser = cuts;
  return made;
}
constexpr Method kLiar_normaliser_f16 = normaliser(
    "liar_normaliser_f16", "declares f32, keeps its normaliser in f16", ATTEST_F16, false, true);
constexpr Method kTwin_normaliser_f16 = normaliser(
    "twin_normaliser_f16", "keeps its normaliser in f16 and declares it", ATTEST_F16, false, false);
constexpr Method kLiar_normaliser_bf16 = normaliser(
    "liar_normaliser_bf16", "declares f32, keeps its normaliser in bf16", ATTEST_BF16, false, true);
constexpr Method kTwin_normaliser_bf16 =
    normaliser("twin_normaliser_bf16", "keeps its normaliser in bf16 and declares it", ATTEST_BF16,
               false, false);
constexpr Method kLiar_normaliser_cut = normaliser(
    "liar_normaliser_cut", "declares f32, cuts its normaliser to f16", ATTEST_F16, true, true);
constexpr Method kTwin_normaliser_cut = normaliser(
    "twin_normaliser_cut", "cuts its normaliser to f16 and declares f16", ATTEST_F16, true, false);

// The same of linear attention: phi of Q, phi of K, the state (and V), the sums over keys.
enum class LinearPlace { kPhiQ, kPhiK, kState, kSum };

constexpr Method method(const char* name, const char* summary, LinearPlace place, int32_t dtype,
                        bool lies) {
  const Place field = place == LinearPlace::kState ? Place::kPv
                      : place == LinearPlace::kSum ? Place::kAccumulator
                                                   : Place::kQk;
  Method made = method(name, summary, field, dtype, lies);
  made.folds_scale = false;
  made.rounds_q = place == LinearPlace::kPhiQ;
  made.rounds_k = place == LinearPlace::kPhiK;
  return made;
}

// The same of deformable attention: locations, weights and bilinear factors, products, the sum.
constexpr SamplingMethod method(const char* name, const char* summary,
                                int32_t SamplingArithmetic::* stage, int32_t dtype, bool lies) {
  SamplingArithmetic arithmetic;
  arithmetic.*stage = dtype;
  SamplingMethod made = honest_sampling(name, summary, Form::kFactor, Sum::kForward, arithmetic);
  if (lies) made.declares = {};
  return made;
}

// The same of gradients. Q is scaled before it is rounded, as above.
constexpr GradientMethod method(const char* name, const char* summary,
                                int32_t GradientArithmetic::* stage, int32_t dtype, bool lies) {
  GradientArithmetic arithmetic;
  arithmetic.*stage = dtype;
  GradientMethod made = honest_gradients(name, summary, arithmetic);
  if (lies) made.declares = {};
  made.folds_scale = true;
  return made;
}

#define PAIR(place, place_name, dtype, dtype_name)                                                 \
  constexpr auto kLiar_##place_name##_##dtype_name =                                               \
      method("liar_" #place_name "_" #dtype_name, "declares f32, computes in " #dtype_name, place, \
             dtype, true);                                                                         \
  constexpr auto kTwin_##place_name##_##dtype_name =                                               \
      method("twin_" #place_name "_" #dtype_name, "computes in " #dtype_name " and declares it",   \
             place, dtype, false);
#define PAIRS(place, place_name)             \
  PAIR(place, place_name, ATTEST_BF16, bf16) \
  PAIR(place, place_name, ATTEST_F16, f16)   \
  PAIR(place, place_name, ATTEST_TF32, tf32)
PAIRS(Place::kQk, qk)
PAIRS(Place::kScore, score)
PAIRS(Place::kProbability, probability)
PAIRS(Place::kPv, pv)
PAIRS(Place::kAccumulator, accumulator)
PAIRS(LinearPlace::kPhiQ, linear_phi_q)
PAIRS(LinearPlace::kPhiK, linear_phi_k)
PAIRS(LinearPlace::kState, linear_state)
PAIRS(LinearPlace::kSum, linear_sum)
PAIRS(&SamplingArithmetic::location, deformable_location)
PAIRS(&SamplingArithmetic::weight, deformable_weight)
PAIRS(&SamplingArithmetic::product, deformable_product)
PAIRS(&SamplingArithmetic::accumulator, deformable_sum)
PAIRS(&GradientArithmetic::score, backward_score)
PAIRS(&GradientArithmetic::probability, backward_probability)
PAIRS(&GradientArithmetic::product, backward_product)
PAIRS(&GradientArithmetic::accumulator, backward_sum)
PAIRS(&GradientArithmetic::qk, backward_qk)
PAIRS(&GradientArithmetic::operand, backward_operand)
PAIRS(&GradientArithmetic::delta, backward_delta)

#define TABLES_OF(Kernel, place, dtype) \
  attest::table<Kernel<kLiar_##place##_##dtype>>(), attest::table<Kernel<kTwin_##place##_##dtype>>()
#define TABLES(Kernel, place) \
  TABLES_OF(Kernel, place, bf16), TABLES_OF(Kernel, place, f16), TABLES_OF(Kernel, place, tf32)

}  // namespace

ATTEST_PLUGIN(TABLES(Softmax, qk), TABLES(Softmax, score), TABLES(Softmax, probability),
              TABLES(Softmax, pv), TABLES(Softmax, accumulator),
              TABLES_OF(Softmax, normaliser, f16), TABLES_OF(Softmax, normaliser, bf16),
              TABLES_OF(Softmax, normaliser, cut), TABLES(Linear, linear_phi_q),
              TABLES(Linear, linear_phi_k), TABLES(Linear, linear_state),
              TABLES(Linear, linear_sum), TABLES(Deformable, deformable_location),
              TABLES(Deformable, deformable_weight), TABLES(Deformable, deformable_product),
              TABLES(Deformable, deformable_sum), TABLES(Backward, backward_score),
              TABLES(Backward, backward_probability), TABLES(Backward, backward_product),
              TABLES(Backward, backward_sum), TABLES(Backward, backward_qk),
              TABLES(Backward, backward_operand), TABLES(Backward, backward_delta))
