// An operation: what its parameters mean, which tensors it has, its inputs, its golden, its cost.
// One folder each.
//
// The rest of the core walks over fields and roles and never asks which operation it has, so a new
// one is a class of this kind and one call of register_operation.
#pragma once
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations/arithmetic.hpp"
#include "core/operations/golden.hpp"
#include "core/operations/golden_device.hpp"
#include "core/tensor/tensor.hpp"

namespace attest::core {

class Operation;
class Relation;
struct Variant;

/// A parameter of an operation: a field of its C struct. Its name is the C identifier, the word of
/// the spec line, the JSON key.
struct Field {
  enum class Type { kI32, kI64, kF32 };
  const char* name;
  Type type;
  size_t offset;     // bytes, in the params struct
  double neutral;    // the value that Operation::complete replaces by what follows from the others,
                     // or that means "not used"
  const char* help;  // one line: unit, meaning
};
#define ATTEST_FIELD(struct_type, field, neutral, help)                 \
  ::attest::core::Field {                                               \
    #field, ::attest::core::field_type<decltype(struct_type::field)>(), \
        offsetof(struct_type, field), neutral, help                     \
  }
template <class T>
constexpr Field::Type field_type() {
  static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t> ||
                std::is_same_v<T, float>);
  return std::is_same_v<T, int32_t>   ? Field::Type::kI32
         : std::is_same_v<T, int64_t> ? Field::Type::kI64
                                      : Field::Type::kF32;
}

/// A tensor that an operation can have.
struct Role {
  /// How the harness fills it when the inputs are tokens; kOwn is left to Operation::fill.
  enum class Content { kOwn, kQueries, kKeys, kCentredKeys, kOrder };
  int32_t index;     // ATTEST_Q ...
  const char* name;  // the spec word: "q", "bias", "cu_seqlens_q"
  int32_t access;    // ATTEST_READ: an input; ATTEST_WRITE: an output
  bool required;
  DType dtype;  // of that tensor always; ATTEST_NONE: the problem's dtype
  Content content = Content::kOwn;
};

/// A problem as implementations see it: an operation, its parameters, a specification for every
/// tensor. A value. A problem made by make_problem or parse_problem is complete, checked, and
/// carries its feature bits.
struct Problem {
  const Operation* operation = nullptr;
  DType dtype = ATTEST_F32;
  uint64_t features = 0;  // ATTEST_WITH_ bits
  alignas(64) std::array<std::byte, ATTEST_ROOM> params{};
  std::array<TensorSpec, ATTEST_ROLES> tensor{};

  template <class T>
  const T& as() const {
    return *reinterpret_cast<const T*>(params.data());
  }
  template <class T>
  T& as() {
    return *reinterpret_cast<T*>(params.data());
  }
  bool operator==(const Problem& other) const;
};

/// Which inputs: a name of Operation::fills (or "tokens") and the seed that everything random in
/// them comes from.
struct Fill {
  std::string name = "random";
  uint64_t seed = 0;
};

/// Something that inputs can make happen in a kernel, at which it can go wrong:
/// "rise/64/last/much".
struct NumericEvent {
  std::string name;     // groups of words, parted by /
  std::string why_not;  // why this problem cannot have it, whatever its inputs; "": it can
};

class Operation {
 public:
  virtual ~Operation();

  virtual int32_t number() const = 0;         // ATTEST_SOFTMAX ..., or 1,000 and up
  virtual std::string_view name() const = 0;  // "softmax": the first word of a spec line
  virtual size_t params_size()
      const = 0;  // sizeof the params struct; its first field is struct_size
  virtual std::span<const Field> fields() const = 0;
  virtual std::span<const Role> roles() const = 0;
  /// Where an implementation may compute in less than float32, in the order of records; by default
  /// nowhere.
  virtual std::span<const ArithmeticStage> stages() const { return {}; }
  /// Its own bits of attest_support.arithmetic, 16 .. 31.
  virtual std::span<const ArithmeticWay> ways() const { return {}; }

  /// Replaces neutral parameters by what follows from the others (num_kv_heads = num_heads,
  /// softmax_scale = 1/sqrt(head_dim)).
  virtual void complete(Problem& problem) const = 0;
  /// The dims of a tensor in this problem, in the order of attest.h, every broadcast dim in full;
  /// which optional tensors are present (varlen, pages) may matter. Called for present tensors and
  /// for roles that a spec line names.
  virtual std::vector<int64_t> dims(const Problem& problem, int32_t role) const = 0;
  /// Whether dim `axis` of the tensor may be 1 and broadcast.
  virtual bool may_broadcast(int32_t /*role*/, int /*axis*/) const { return false; }
  /// Throws Error naming the field and what would be right. Tensor specs have been checked against
  /// dims() before.
  virtual void check(const Problem& problem) const = 0;
  /// The operation's own ATTEST_WITH_ bits; those that follow from specs alone (strides, mixed
  /// dtype) are added by the caller.
  virtual uint64_t features(const Problem& problem) const = 0;

  /// The name of its own bit n, ATTEST_OWN_BIT(n), without the ATTEST_WITH_; empty: it has no such
  /// bit.
  virtual std::string_view own_feature(int /*n*/) const { return {}; }

  /// Floating point operations of the forward (a multiply-add counts 2), masked work not counted.
  virtual double flops(const Problem& problem) const = 0;

  /// The fills that judge this problem, most telling first: "random", "codebook", "codebook_peaked"
  /// ...
  virtual std::vector<std::string> fills(const Problem& problem) const = 0;
  /// Those that it has besides, and that judge only where they are asked for: they tell nothing
  /// that no other does.
  virtual std::vector<std::string> more_fills(const Problem& /*problem*/) const { return {}; }
  /// Writes all inputs (access READ) of the problem. Where `only_own`, the case has tokens: ORDER
  /// holds theirs and stays; and with fill "tokens" so do all roles with another Content than kOwn.
  /// Same problem and fill, same bytes, on every machine.
  virtual void fill(const Problem& problem, const Fill& fill, const Tensors& tensors,
                    bool only_own) const = 0;
  /// The float64 reference of all outputs of the problem for these inputs, which must be what
  /// `fill` wrote (closed forms rely on it). `tensors` may hold nothing but inputs. Fill "random"
  /// stands for any inputs.
  virtual std::unique_ptr<Golden> golden(const Problem& problem, const Fill& fill,
                                         const Tensors& tensors) const = 0;
  /// The same, where a device may make what would take the host long; it must outlive the golden.
  /// By default it is not asked. Throws GoldenRefused where the host does not believe it.
  virtual std::unique_ptr<Golden> golden_with(const GoldenDevice& /*device*/,
                                              const Problem& problem, const Fill& fill,
                                              const Tensors& tensors) const {
    return golden(problem, fill, tensors);
  }

  /// Every event of the operation, with those that this problem cannot have. By default there is
  /// none.
  virtual std::vector<NumericEvent> events(const Problem& /*problem*/) const { return {}; }
  /// Those that these inputs make happen in a row of the first output that is judged exactly:
  /// `judged` has a bit for every row, as Expected counts them. Counted from the inputs' bytes
  /// alone, whichever fill made them. Rows may be sampled, always the same ones, so an event that
  /// few of very many rows have may be overlooked; none is counted that does not happen.
  virtual std::set<std::string> count_events(const Problem& /*problem*/, const Tensors& /*inputs*/,
                                             const std::vector<bool>& /*judged*/) const {
    return {};
  }

  /// Problems of the same shape that differ in one thing that a cache of plans may forget
  /// (variant.hpp).
  virtual std::vector<Variant> variants(const Problem& problem) const;
  /// What must hold between runs on these inputs and on changed ones (relation.hpp), cheapest
  /// first; they refer to `inputs`.
  virtual std::vector<std::unique_ptr<Relation>> relations(const Problem& problem,
                                                           const Tensors& inputs) const;
  /// How many honest kernels a declaration stands for that err by more than their order of
  /// summation; emulate knows each.
  virtual int kernels(const Problem& /*problem*/, const Arithmetic& /*arithmetic*/) const {
    return 1;
  }
  /// Rows of the outputs as honest kernel 0 to kernels() - 1 of that arithmetic may compute them
  /// from these inputs, plain and slow: what the tolerance has to let pass before an implementation
  /// may be failed by it. Rows are those of Expected; elements that are left out are NaN. By
  /// default there is none.
  virtual void emulate(const Problem& /*problem*/, const Tensors& /*tensors*/,
                       const Arithmetic& /*arithmetic*/, int /*kernel*/,
                       std::span<const int64_t> /*rows*/, const EmulationSink& /*sink*/) const {}
};

/// The operation of that number or name, or null.
const Operation* find_operation(int32_t number);
const Operation* find_operation(std::string_view name);
std::vector<const Operation*> all_operations();
/// The name of an operation that attest.h declares and that nothing here knows yet, "deformable";
/// empty for any other number.
std::string_view unjudged_operation(int32_t number);
/// "softmax", "deformable (not judged yet)", "operation 17".
std::string operation_title(int32_t number);
/// Adds an operation, which must outlive the program's use of it; a number or name that is taken is
/// an Error.
void register_operation(const Operation* operation);

/// The fills that judge by default, "tokens" first and in place of "random" where `tokens`.
std::vector<std::string> default_fills(const Problem& problem, bool tokens);
/// Every fill that the problem has: fills, then more_fills; where `tokens`, "tokens" in place of
/// "random", and first.
std::vector<std::string> known_fills(const Problem& problem, bool tokens);
/// The word for all of them.
inline constexpr std::string_view kAllFills = "all";
/// Throws Error that begins with `what` and names the `known` ones, where one of `wanted` is
/// neither among these nor kAllFills.
void require_fills(const std::string& what, const std::vector<std::string>& wanted,
                   const std::vector<std::string>& known);

/// A bit for every row of the first output: whether the golden judges it exactly.
std::vector<bool> judged_rows(const Problem& problem, const Golden& golden);

/// The role of that name or index, or null.
const Role* find_role(const Operation& operation, std::string_view name);
const Role* find_role(const Operation& operation, int32_t index);
inline bool is_output(const Role& role) { return (role.access & ATTEST_WRITE) != 0; }

/// A field's value as a double (exact: every field holds less than 2^53), and set from one.
double get_field(const Problem& problem, const Field& field);
void set_field(Problem& problem, const Field& field, double value);

/// Starts a problem: params zeroed to the fields' neutral values, struct_size set, no tensors.
Problem blank_problem(const Operation& operation, DType dtype);
/// Completes parameters, gives every required tensor that has no spec a dense one, checks all, sets
/// the feature bits. Throws Error.
void finish_problem(Problem& problem);

/// Bytes of every tensor's elements, each once: the least that has to move.
double min_bytes(const Problem& problem);
/// Names of the feature bits, e.g. "CAUSAL+LSE"; operations' own bits as "OWN(n)".
std::string print_features(uint64_t features);
/// The same as a list; with the operation's words for its own bits where it is given.
std::vector<std::string> feature_names(uint64_t features, const Operation* operation);

}  // namespace attest::core
