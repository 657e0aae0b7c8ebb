#include "core/inputs/buffers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/tensor/error.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1
#endif

namespace attest::core {
namespace {

constexpr int64_t kAlignment = 64, kWorkspaceAlignment = 256;
constexpr unsigned char kCanary = 0xC5;

int64_t page_size() {
  static const int64_t size = sysconf(_SC_PAGESIZE);
  return size;
}
int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// The data end as near to the slot's end as their alignment allows; tensors are moved off multiples of 128.
Slot place(int32_t role, int64_t bytes, int64_t file_offset, int64_t misalign) {
  const bool workspace = role == kWorkspaceRole;
  const int64_t alignment = workspace ? kWorkspaceAlignment : kAlignment;
  Slot slot{.role = role, .file_offset = file_offset, .data_bytes = bytes};
  slot.map_bytes = round_up(std::max<int64_t>(bytes, 1) + kAlignment, page_size());
  slot.data_offset = slot.map_bytes - round_up(std::max<int64_t>(bytes, 1), alignment);
  if (!workspace && slot.data_offset % (2 * kAlignment) == 0) slot.data_offset -= kAlignment;
  slot.data_offset -= misalign;
  if (slot.data_offset < 0) slot.data_offset += page_size(), slot.map_bytes += page_size();
  return slot;
}

// Writes the 8-byte pattern `bits` cut to `width` bytes over [begin, begin + bytes).
void fill_pattern(char* begin, int64_t bytes, uint64_t bits, size_t width) {
  uint64_t pattern = bits;
  if (width == 2) pattern = (bits & 0xffff) * 0x0001000100010001u;
  if (width == 4) pattern = (bits & 0xffffffff) * 0x0000000100000001u;
  if (width == 1) pattern = (bits & 0xff) * 0x0101010101010101u;
  int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) std::memcpy(begin + i, &pattern, 8);
  std::memcpy(begin + i, &pattern, size_t(bytes - i));
}

void poison_tensor(const Tensor& tensor) {
  const size_t width = dtype_bytes(tensor.spec.dtype);
  if (is_dense(tensor.spec))
    return fill_pattern(static_cast<char*>(tensor.data), extent_bytes(tensor.spec), poison_bits(tensor.spec.dtype), width);
  // Gaps between the elements of a strided tensor are canaries, and stay so.
  const uint64_t bits = poison_bits(tensor.spec.dtype);
  for (int64_t row = 0; row < row_count(tensor.spec, tensor.spec.rank); ++row)
    std::memcpy(static_cast<char*>(tensor.data) + row_offset(tensor.spec, tensor.spec.rank, row) * int64_t(width), &bits, width);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Mapping::Mapping(int fd, std::span<const Slot> slots, bool writable) : slots_(slots.begin(), slots.end()) {
  const int64_t page = page_size();
  bytes_ = size_t(page);
  for (const Slot& slot : slots_) bytes_ += size_t(slot.map_bytes + page);
  void* base = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw Error(fmt::format("cannot reserve {} bytes of addresses: {}", bytes_, std::strerror(errno)));
  base_ = static_cast<char*>(base);
  int64_t at = page;
  for (const Slot& slot : slots_) {
    const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    if (mmap(base_ + at, size_t(slot.map_bytes), protection, MAP_SHARED | MAP_FIXED, fd, slot.file_offset) == MAP_FAILED)
      throw Error(fmt::format("cannot map {} bytes of shared memory: {}", slot.map_bytes, std::strerror(errno)));
    starts_.push_back(base_ + at + slot.data_offset);
    at += slot.map_bytes + page;
  }
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_), std::swap(bytes_, other.bytes_), std::swap(slots_, other.slots_),
      std::swap(starts_, other.starts_);
  return *this;
}
Mapping::~Mapping() {
  if (base_) munmap(base_, bytes_);
}

SharedTensors::SharedTensors(const Problem& problem, int32_t access, uint64_t workspace_bytes) : problem_(problem) {
  int64_t bytes = 0;
  const bool unaligned = (problem.features & ATTEST_WITH_UNALIGNED) != 0;
  auto add = [&](int32_t role, int64_t data_bytes, size_t element_bytes) {
    slots_.push_back(place(role, data_bytes, bytes, unaligned ? int64_t(element_bytes) : 0));
    bytes += slots_.back().map_bytes;
  };
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (present(spec) && (role.access & access)) add(role.index, extent_bytes(spec), dtype_bytes(spec.dtype));
  }
  if (workspace_bytes > 0) add(kWorkspaceRole, int64_t(workspace_bytes), 0);
  file_ = Descriptor(memfd_create("attest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file_ || ftruncate(file_.get(), bytes) != 0)
    throw Error(fmt::format("cannot create {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  mapping_ = Mapping(file_.get(), slots_, true);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].role == kWorkspaceRole) continue;
    const auto role = size_t(slots_[i].role);
    tensors_[role] = {problem.tensor[role], mapping_.data(i)};
  }
}

void SharedTensors::seal_size() { fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW); }

void SharedTensors::seal() {
  // Older kernels refuse the flag; the worker's read-only mapping then protects the inputs alone.
  fcntl(file_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
}

void SharedTensors::poison() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    auto* start = static_cast<char*>(mapping_.data(i));
    const bool workspace = slot.role == kWorkspaceRole;
    const bool whole = !workspace && !is_dense(tensors_[size_t(slot.role)].spec);
    std::memset(start - slot.data_offset, kCanary, size_t(slot.data_offset));
    const int64_t end = slot.data_offset + slot.data_bytes;
    std::memset(start + slot.data_bytes, kCanary, size_t(slot.map_bytes - end));
    if (whole) std::memset(start, kCanary, size_t(slot.data_bytes));
    if (workspace) {
      // A large workspace is left as the zero pages it is: poisoning gigabytes would cost more than the run.
      if (slot.data_bytes <= int64_t{256} << 20) fill_pattern(start, slot.data_bytes, poison_bits(ATTEST_F32), 4);
    } else {
      poison_tensor(tensors_[size_t(slot.role)]);
    }
  }
}

std::string SharedTensors::broken_canary() const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const auto* start = static_cast<const unsigned char*>(mapping_.data(i));
    const std::string name = slot.role == kWorkspaceRole ? "workspace" : find_role(*problem_.operation, slot.role)->name;
    for (int64_t k = 1; k <= slot.data_offset; ++k)
      if (start[-k] != kCanary) return fmt::format("{} was written {} bytes before its start", name, k);
    for (int64_t k = slot.data_bytes; k < slot.map_bytes - slot.data_offset; ++k)
      if (start[k] != kCanary) return fmt::format("{} was written past its end, at byte {} behind it", name, k - slot.data_bytes);
  }
  return {};
}

}  // namespace attest::core
