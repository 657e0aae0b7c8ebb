// An operation: its parameters, tensors, inputs, golden and cost. Each operation has a folder.
//
// The rest of the core works on fields and roles and does not depend on a particular operation. To
// add one, derive a class from Operation and register it. README.md beside this file shows how.
#pragma once
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
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
struct Mistake;
class Relation;
struct Variant;

/// A parameter of an operation: a field of its C struct. The name is the C identifier, the word in
/// a spec line and the JSON key.
struct Field {
  enum class Type { kI32, kI64, kF32 };
  const char* name;
  Type type;
  size_t offset;     // bytes, in the params struct
  double neutral;    // the value that means "not given": Operation::complete replaces it, or the
                     // parameter is not used
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
  /// What the harness writes into the tensor if the inputs are tokens. kOwn: Operation::fill writes
  /// it.
  enum class Content { kOwn, kQueries, kKeys, kCentredKeys, kOrder };
  int32_t index;     // ATTEST_Q ...
  const char* name;  // the spec word: "q", "bias", "cu_seqlens_q"
  int32_t access;    // ATTEST_READ: an input; ATTEST_WRITE: an output
  bool required;
  DType dtype;  // the tensor's only dtype; ATTEST_NONE: the problem's dtype
  Content content = Content::kOwn;
};

/// A problem as implementations see it: an operation, its parameters and a specification for every
/// tensor. finish_problem and parse_problem return complete, checked problems with feature bits.
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
  bool has(int32_t role) const { return present(tensor[size_t(role)]); }
  bool operator==(const Problem& other) const;
};

/// Names the inputs of a problem. `name` is one of Operation::fills, or "tokens". All random
/// numbers in the inputs come from `seed`, except lengths of sequences: they are the same in all
/// fills of a problem, unless `other_lengths`.
struct Fill {
  std::string name = "random";
  uint64_t seed = 0;
  bool other_lengths = false;
};

/// A situation in a kernel that inputs can cause and that a bug can show in: "rise/64/last/much".
struct NumericEvent {
  std::string name;     // words separated by /
  std::string why_not;  // why no inputs of this problem can cause it; "": some can
};

class Operation {
 public:
  virtual ~Operation();

  virtual int32_t number() const = 0;         // ATTEST_SOFTMAX ..., or 1,000 and more
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

  /// Replaces neutral parameters by values that follow from the others (num_kv_heads = num_heads,
  /// softmax_scale = 1/sqrt(head_dim)).
  virtual void complete(Problem& problem) const = 0;
  /// The dims of a tensor of this problem, in the order of attest.h, with every broadcast dim in
  /// full. They may depend on which optional tensors are present (varlen, pages). Called for
  /// present tensors and for roles that a spec line names.
  virtual std::vector<int64_t> dims(const Problem& problem, int32_t role) const = 0;
  /// Whether dim `axis` of the tensor may be 1 and broadcast.
  virtual bool may_broadcast(int32_t /*role*/, int /*axis*/) const { return false; }
  /// Whether the tensor may be stored in f8e4m3 or f8e5m2.
  virtual bool may_be_f8(int32_t /*role*/) const { return false; }
  /// The name of a dim of an output in messages: "head". By default "dim 1".
  virtual std::string dim_name(int32_t role, int axis) const;
  /// Throws Error if the problem is invalid; the message names the field and says what would be
  /// right. The caller has checked the tensor specs against dims() before.
  virtual void check(const Problem& problem) const = 0;
  /// The ATTEST_WITH_ bits that only the operation knows. The caller adds those that follow from
  /// tensor specs (strides, mixed dtypes).
  virtual uint64_t features(const Problem& problem) const = 0;

  /// The name of ATTEST_OWN_BIT(n) without ATTEST_WITH_; empty: the operation has no such bit.
  virtual std::string_view own_feature(int /*n*/) const { return {}; }

  /// Floating-point operations of one run. A multiply-add counts 2; hidden pairs do not count.
  virtual double flops(const Problem& problem) const = 0;

  /// The default fills of this problem, the one that shows most bugs first: "random", "codebook",
  /// "codebook_peaked" ...
  virtual std::vector<std::string> fills(const Problem& problem) const = 0;
  /// Further fills, used only on request: they show no bug that the default fills miss.
  virtual std::vector<std::string> more_fills(const Problem& /*problem*/) const { return {}; }
  /// Writes all inputs (access READ) of the problem. Same problem and fill: same bytes, on every
  /// machine. `only_own`: the case has tokens. ORDER then holds the order of the tokens and must
  /// stay. With fill "tokens", all roles whose Content is not kOwn must stay too.
  virtual void fill(const Problem& problem, const Fill& fill, const Tensors& tensors,
                    bool only_own) const = 0;
  /// Whether the other inputs determine this one, as the forward pass does O and LSE of gradients.
  /// It never changes alone.
  virtual bool follows(int32_t /*role*/) const { return false; }
  /// Writes the inputs that follow, after others have changed.
  virtual void write_following(const Problem& /*problem*/, const Tensors& /*inputs*/) const {}
  /// The golden of all outputs for these inputs. `fill` must be the fill that wrote them, because
  /// closed forms depend on it; "random" stands for any inputs. `tensors` need not have outputs.
  virtual std::unique_ptr<Golden> golden(const Problem& problem, const Fill& fill,
                                         const Tensors& tensors) const = 0;
  /// The same golden, computed by `device` where it is faster than the host. The device must
  /// outlive the golden. By default the host computes it. Throws GoldenRefused if the host does not
  /// confirm the device's results.
  virtual std::unique_ptr<Golden> golden_with(const GoldenDevice& /*device*/,
                                              const Problem& problem, const Fill& fill,
                                              const Tensors& tensors) const {
    return golden(problem, fill, tensors);
  }

  /// All events of the operation, including those that this problem cannot have. By default there
  /// are none.
  virtual std::vector<NumericEvent> events(const Problem& /*problem*/) const { return {}; }
  /// The events that these inputs cause in the rows of the first output that the golden judges
  /// exactly. `judged` has a bit for every row, numbered as in Expected. The events are counted
  /// from the bytes of the inputs alone, not from the fill. The function may look at a fixed sample
  /// of the rows: it may miss a rare event, but never returns one that does not happen.
  virtual std::set<std::string> count_events(const Problem& /*problem*/, const Tensors& /*inputs*/,
                                             const std::vector<bool>& /*judged*/) const {
    return {};
  }

  /// How far an operation that stands in for softmax attention is from it on these inputs: the root
  /// of the summed squared differences of the true outputs of some rows, relative to the outputs of
  /// softmax. Nothing: it does not stand in for softmax, or no row can be compared.
  virtual std::optional<double> distance_from_softmax(const Problem& /*problem*/,
                                                      const Tensors& /*inputs*/) const {
    return {};
  }

  /// Problems of the same shape that differ in one thing, for the relation plan-reuse
  /// (variant.hpp).
  virtual std::vector<Variant> variants(const Problem& problem) const;
  /// Other problems and inputs for which a wrong output would be right (mistake.hpp), the likeliest
  /// first. They may refer to `inputs`. By default there are none.
  virtual std::vector<Mistake> mistakes(const Problem& problem, const Tensors& inputs) const;
  /// The relations between runs on these inputs and on changed ones (relation.hpp), cheapest first.
  /// They keep references to `inputs`.
  virtual std::vector<std::unique_ptr<Relation>> relations(const Problem& problem,
                                                           const Tensors& inputs) const;
  /// Returns whether relations() hold on the inputs of this fill. By default they hold on all
  /// but "wild", whose rows of NaN have no relation to other rows.
  virtual bool relations_hold_on(std::string_view fill) const { return fill != "wild"; }
  /// How many different honest kernels fit the declared arithmetic; differences in the order of
  /// summation do not count. `emulate` emulates each of them.
  virtual int kernels(const Problem& /*problem*/, const Arithmetic& /*arithmetic*/) const {
    return 1;
  }
  /// Computes output rows as an honest kernel of that arithmetic would, plainly and slowly.
  /// `kernel`: 0 to kernels() - 1. The tolerance check needs it: these rows must pass before an
  /// implementation may fail. Rows are numbered as in Expected. NaN stands for elements that are
  /// not computed. By default no row is emulated.
  virtual void emulate(const Problem& /*problem*/, const Tensors& /*tensors*/,
                       const Arithmetic& /*arithmetic*/, int /*kernel*/,
                       std::span<const int64_t> /*rows*/, const EmulationSink& /*sink*/) const {}
};

/// The operation with that number or name; null: there is none.
const Operation* find_operation(int32_t number);
const Operation* find_operation(std::string_view name);
std::vector<const Operation*> all_operations();
/// "softmax", or "operation 17" if there is none of that number.
std::string operation_title(int32_t number);
/// Adds an operation; the object must exist as long as the program uses it. Throws Error if its
/// number or name is taken.
void register_operation(const Operation* operation);

/// The default fills. `tokens`: "tokens" comes first, and "random" is left out.
std::vector<std::string> default_fills(const Problem& problem, bool tokens);
/// All fills of the problem: fills(), then more_fills(). `tokens`: as above.
std::vector<std::string> known_fills(const Problem& problem, bool tokens);
/// The word that stands for all fills.
inline constexpr std::string_view kAllFills = "all";
/// Throws Error if an element of `wanted` is neither in `known` nor kAllFills. The message begins
/// with `what` and lists `known`.
void require_fills(const std::string& what, const std::vector<std::string>& wanted,
                   const std::vector<std::string>& known);

/// For every row of the first output: whether the golden judges it exactly.
std::vector<bool> judged_rows(const Problem& problem, const Golden& golden);

/// Whether a tensor of that role, which has no dtype of its own, may have this one; and a list of
/// those that it may have, for messages.
bool may_have(const Operation& operation, const Role& role, DType dtype);
std::string right_dtypes(const Operation& operation, const Role& role);

/// The role with that name or index; null: there is none.
const Role* find_role(const Operation& operation, std::string_view name);
const Role* find_role(const Operation& operation, int32_t index);
inline bool is_output(const Role& role) { return (role.access & ATTEST_WRITE) != 0; }

/// Reads and writes a field's value as a double, which is exact: every field is below 2^53.
double get_field(const Problem& problem, const Field& field);
void set_field(Problem& problem, const Field& field, double value);

/// Starts a problem: every field has its neutral value, struct_size is set, no tensor is present.
Problem blank_problem(const Operation& operation, DType dtype);
/// Completes the parameters, gives required tensors without a spec a dense one, checks everything
/// and sets the feature bits. Throws Error if the problem is invalid.
void finish_problem(Problem& problem);

/// Bytes of all tensors, each element once: the least that a run has to move.
double min_bytes(const Problem& problem);
/// The number of queries in one run, of all sequences; 0 if the operation names no such dims.
double query_count(const Problem& problem);
/// Names of the feature bits, e.g. "CAUSAL+LSE"; bits of an operation's own are "OWN(n)".
std::string print_features(uint64_t features);
/// The same as a list. If `operation` is not null, its own bits have its names.
std::vector<std::string> feature_names(uint64_t features, const Operation* operation);

}  // namespace attest::core
