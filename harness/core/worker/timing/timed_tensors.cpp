#include "core/worker/timing/timed_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor/error.hpp"
#include "core/tensor/runs.hpp"

namespace attest::core {
namespace {

constexpr size_t kFlips = 64, kSpans = 8;
constexpr int64_t kSpanElements = 64;
constexpr int64_t kPieceBytes = 4096;

// The byte and the bit of the leading mantissa bit of an element: flipping it keeps sign and
// binade. Mask 0: no such dtype.
struct MantissaBit {
  int64_t byte = 0;
  char mask = 0;
};
MantissaBit leading_mantissa_bit(DType dtype) {
  switch (dtype) {  // little endian
    case ATTEST_F32: return {2, 0x40};
    case ATTEST_F16: return {1, 0x02};
    case ATTEST_BF16: return {0, 0x40};
    case ATTEST_F64: return {6, 0x08};
    default: return {};
  }
}

}  // namespace

TimedTensors::TimedTensors(const attest_tensor* tensor, const MappedTensors& first,
                           const MappedTensors* second, const MappedTensors& outputs,
                           StatusPage& status)
    : tensor_(tensor), first_(first), second_(second), outputs_(outputs) {
  std::vector<PrivateMemory::Piece> pieces;
  std::vector<size_t>
      filled;  // Filled below. The implementation itself touches its workspace first.
  for (const MappedTensors* tensors : {&first_, &outputs_})
    for (const Slot& slot : tensors->slots) {
      const bool is_tensor = slot.role != kWorkspaceRole;
      pieces.push_back({size_t(slot.data_bytes), size_t(slot.alignment),
                        is_tensor && is_sparse(tensor[slot.role])});
      if (is_tensor && !pieces.back().sparse) filled.push_back(pieces.size() - 1);
    }
  memory_.emplace(pieces);
  memory_->populate(filled);
  status.kept_bytes = PrivateMemory::kept_bytes();
  int32_t noted = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool input = i < first_.slots.size();
    const Slot& slot = input ? first_.slots[i] : outputs_.slots[i - first_.slots.size()];
    char* data = memory_->data(i);
    if (input)
      copy_elements(tensor[slot.role], data, first_.data(i));
    else if (slot.role != kWorkspaceRole)
      poison_tensor({tensor[slot.role], data});
    arguments_.add(slot, data);
    const auto begin = reinterpret_cast<uint64_t>(data), end = begin + uint64_t(slot.data_bytes);
    if (noted < int32_t(std::size(status.slots)))
      status.slots[noted++] = {slot.role, 0, begin, end, begin, end};
  }
  status.slot_count = noted;
  if (second_) find_pieces();
}

std::vector<DeviceTensors::Source> TimedTensors::sources() const {
  std::vector<DeviceTensors::Source> sources;
  for (const MappedTensors* tensors : {&first_, &outputs_})
    for (const Slot& slot : tensors->slots)
      sources.push_back({slot,
                         slot.role == kWorkspaceRole ? nullptr : memory_->data(sources.size()),
                         tensors == &outputs_});
  return sources;
}

void TimedTensors::find_pieces() {
  for (size_t i = 0; i < first_.slots.size(); ++i) {
    const attest_tensor& spec = tensor_[first_.slots[i].role];
    const auto width = int64_t(dtype_bytes(spec.dtype));
    const auto *one = static_cast<const char*>(first_.data(i)),
               *other = static_cast<const char*>(second_->data(i));
    for_each_run(spec, [&](int64_t run, int64_t count) {
      for (int64_t at = run * width, end = at + count * width; at < end; at += kPieceBytes) {
        const auto bytes = size_t(std::min(kPieceBytes, end - at));
        if (std::memcmp(one + at, other + at, bytes) != 0)
          pieces_.push_back({memory_->data(i) + at, one + at, other + at, bytes});
      }
    });
  }
}

void TimedTensors::load(bool second) {
  for (const Piece& piece : pieces_)
    std::memcpy(piece.to, second ? piece.second : piece.first, piece.bytes);
}

bool TimedTensors::inputs_unchanged() const {
  for (size_t i = 0; i < first_.slots.size(); ++i)
    if (!same_elements(tensor_[first_.slots[i].role], memory_->data(i), first_.data(i)))
      return false;
  return true;
}

// Elements below 1 stay below it: what has to lie in [0, 1] goes on doing so.
void TimedTensors::choose_flips(Dice& dice) {
  for (size_t tries = 4 * kFlips; tries > 0 && flips_.size() < kFlips && !first_.slots.empty();
       --tries) {
    const size_t i = below(dice, first_.slots.size());
    const attest_tensor& spec = tensor_[first_.slots[i].role];
    const MantissaBit bit = leading_mantissa_bit(spec.dtype);
    const int64_t element =
        row_offset(spec, spec.rank, int64_t(below(dice, size_t(element_count(spec)))));
    if (bit.mask == 0) continue;
    const double value = std::abs(load_element(i, element));
    char* byte = memory_->data(i) + element * int64_t(dtype_bytes(spec.dtype)) + bit.byte;
    const bool taken = std::any_of(flips_.begin(), flips_.end(),
                                   [&](const Flip& flip) { return flip.byte == byte; });
    if (value > 0 && value < 1 && !taken) flips_.push_back({byte, bit.mask});
  }
}

double TimedTensors::load_element(size_t i, int64_t element) const {
  return core::load(first_.data(i), tensor_[first_.slots[i].role].dtype, element);
}

void TimedTensors::restore_flips() {
  for (Flip& flip : flips_)
    if (flip.flipped) {
      *flip.byte ^= flip.mask;
      flip.flipped = false;
    }
}

void TimedTensors::scramble(Dice& dice) {
  spans_.clear();
  for (size_t i = 0; i < outputs_.slots.size(); ++i)
    for (size_t k = 0; k < kSpans && outputs_.slots[i].role != kWorkspaceRole; ++k)
      scramble_span(dice, tensor_[outputs_.slots[i].role], output(i));
}

void TimedTensors::scramble_span(Dice& dice, const attest_tensor& spec, char* data) {
  // A span lies inside of one row of the last dim, whose elements may be apart; it is cut where
  // they are.
  const auto width = int64_t(dtype_bytes(spec.dtype)), elements = element_count(spec);
  const int last = spec.rank - 1;
  const int64_t at = int64_t(below(dice, size_t(elements))),
                from = int64_t(below(dice, size_t(elements)));
  const bool together = spec.dim[last] == 1 || spec.stride[last] == 1;
  const int64_t count = together ? std::min({kSpanElements, spec.dim[last] - at % spec.dim[last],
                                             spec.dim[last] - from % spec.dim[last]})
                                 : 1;
  char* to = data + row_offset(spec, spec.rank, at) * width;
  const size_t bytes = size_t(count * width);
  const std::vector<char> before(to, to + bytes);
  if (dice() % 2) {
    const uint64_t poison = poison_bits(spec.dtype);
    for (int64_t e = 0; e < count; ++e) std::memcpy(to + e * width, &poison, size_t(width));
  } else {
    std::memmove(to, data + row_offset(spec, spec.rank, from) * width, bytes);
  }
  if (std::memcmp(to, before.data(), bytes) != 0)
    spans_.push_back({to, std::vector<char>(to, to + bytes)});
}

bool TimedTensors::scramble_left() const {
  // The last one alone is sure not to have been scrambled over.
  return !spans_.empty() && std::memcmp(spans_.back().at, spans_.back().scrambled.data(),
                                        spans_.back().scrambled.size()) == 0;
}

void TimedTensors::copy_outputs(const MappedTensors& to) const {
  for (size_t i = 0; i < outputs_.slots.size(); ++i)
    if (const int32_t role = outputs_.slots[i].role; role != kWorkspaceRole)
      copy_elements(tensor_[role], to.data(i), output(i));
}

bool TimedTensors::same_outputs(const MappedTensors& as) const {
  for (size_t i = 0; i < outputs_.slots.size(); ++i)
    if (const int32_t role = outputs_.slots[i].role;
        role != kWorkspaceRole && !same_elements(tensor_[role], output(i), as.data(i)))
      return false;
  return true;
}

uint64_t TimedTensors::hash_outputs() const {
  uint64_t hash = 0;
  for (size_t i = 0; i < outputs_.slots.size(); ++i) {
    const int32_t role = outputs_.slots[i].role;
    if (role == kWorkspaceRole) continue;
    const uint64_t pair[] = {hash, hash_tensor({tensor_[role], output(i)})};
    hash = hash_bytes(pair, sizeof(pair));
  }
  return hash;
}

void TimedTensors::poison_outputs() {
  for (size_t i = 0; i < outputs_.slots.size(); ++i)
    if (const int32_t role = outputs_.slots[i].role; role != kWorkspaceRole)
      poison_tensor({tensor_[role], output(i)});
}

bool TimedTensors::all_poison() const {
  for (size_t i = 0; i < outputs_.slots.size(); ++i)
    if (const int32_t role = outputs_.slots[i].role;
        role != kWorkspaceRole && !is_poison({tensor_[role], output(i)}))
      return false;
  return true;
}

}  // namespace attest::core
