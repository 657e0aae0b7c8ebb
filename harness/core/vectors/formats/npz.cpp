// Zip as far as NumPy writes it (APPNOTE.TXT 6.3.10): the central directory says where members lie;
// no zip64, no encryption.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/inputs/formats/bytes.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/formats/npy.hpp"

namespace attest::core {
namespace {

using Bytes = std::span<const std::byte>;
constexpr uint32_t kEndMark = 0x06054b50, kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint64_t kMostRatio = 1032;  // deflate never packs better
constexpr uint64_t kMostUnpacked_bytes = uint64_t{2}
                                         << 30;  // of all members together, as of a file on its own

struct Member {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t packed_bytes = 0, unpacked_bytes = 0, local_offset = 0;
};

uint16_t u16(Bytes bytes, size_t at) { return load_scalar<uint16_t>(bytes.data() + at, false); }
uint32_t u32(Bytes bytes, size_t at) { return load_scalar<uint32_t>(bytes.data() + at, false); }

/// Where the end record begins: the last place that has its mark and whose comment fills the rest
/// of the file.
size_t find_end(Bytes bytes, std::string_view file_name) {
  for (size_t back = kEndBytes; back <= std::min(bytes.size(), kEndBytes + 65535); ++back) {
    const size_t at = bytes.size() - back;
    if (u32(bytes, at) == kEndMark && u16(bytes, at + 20) == back - kEndBytes) return at;
  }
  throw Error(
      fmt::format("{}: not an .npz file, or cut off: a zip ends with its directory", file_name));
}

std::vector<Member> read_directory(Bytes bytes, std::string_view file_name) {
  const size_t end = find_end(bytes, file_name);
  const size_t count = u16(bytes, end + 10), size = u32(bytes, end + 12),
               offset = u32(bytes, end + 16);
  if (count == 0xffff || size == 0xffffffff || offset == 0xffffffff)
    throw Error(fmt::format("{}: a zip64 archive; at most 2 GiB are read", file_name));
  if (offset > end || size > end - offset)
    throw Error(fmt::format("{}: the directory lies outside of the file", file_name));
  Bytes directory = bytes.subspan(offset, size);
  std::vector<Member> members;
  for (size_t i = 0; i < count; ++i) {
    if (directory.size() < kEntryBytes || u32(directory, 0) != kEntryMark)
      throw Error(fmt::format("{}: entry {} of the directory is damaged", file_name, i));
    const size_t name_bytes = u16(directory, 28),
                 all = kEntryBytes + name_bytes + u16(directory, 30) + u16(directory, 32);
    if (all > directory.size())
      throw Error(fmt::format("{}: entry {} of the directory is cut off", file_name, i));
    members.push_back(
        {.name =
             std::string(reinterpret_cast<const char*>(directory.data()) + kEntryBytes, name_bytes),
         .flags = u16(directory, 8),
         .method = u16(directory, 10),
         .crc = u32(directory, 16),
         .packed_bytes = u32(directory, 20),
         .unpacked_bytes = u32(directory, 24),
         .local_offset = u32(directory, 42)});
    directory = directory.subspan(all);
  }
  return members;
}

/// The packed bytes, once all that the directory says of them has been checked.
Bytes packed(Bytes bytes, const Member& member, const std::string& where) {
  if (member.flags & 1) throw Error(where + ": is encrypted");
  if (member.method != 0 && member.method != 8)
    throw Error(
        fmt::format("{}: packed by method {}; stored and deflated are read", where, member.method));
  if (member.local_offset > bytes.size() || bytes.size() - member.local_offset < kLocalBytes ||
      u32(bytes, member.local_offset) != kLocalMark)
    throw Error(where + ": does not lie where the directory says");
  const size_t begin = member.local_offset + kLocalBytes + u16(bytes, member.local_offset + 26) +
                       u16(bytes, member.local_offset + 28);
  if (begin > bytes.size() || member.packed_bytes > bytes.size() - begin)
    throw Error(where + ": reaches beyond the file");
  const bool possible = member.method == 0
                            ? member.packed_bytes == member.unpacked_bytes
                            : member.unpacked_bytes <= (member.packed_bytes + 1) * kMostRatio;
  if (!possible)
    throw Error(fmt::format("{}: {} bytes cannot unpack to {}", where, member.packed_bytes,
                            member.unpacked_bytes));
  return bytes.subspan(begin, member.packed_bytes);
}

std::vector<std::byte> inflated(Bytes from, size_t size, const std::string& where) {
  std::vector<std::byte> to(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error(where + ": zlib cannot start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
  stream.avail_in = uInt(from.size());
  std::byte none{};  // zlib wants room even for nothing
  stream.next_out = reinterpret_cast<Bytef*>(size ? to.data() : &none);
  stream.avail_out = uInt(size);
  const int result = inflate(&stream, Z_FINISH);
  const bool whole = result == Z_STREAM_END && stream.total_out == size;
  inflateEnd(&stream);
  if (!whole) throw Error(where + ": the packed bytes are damaged");
  return to;
}

}  // namespace

std::vector<FileTensor> parse_npz(Bytes bytes, std::string_view file_name) {
  std::vector<FileTensor> tensors;
  uint64_t unpacked_bytes = 0;
  for (const Member& member : read_directory(bytes, file_name)) {
    const std::string where = fmt::format("{}: member {}", file_name, in_quotes(member.name));
    const Bytes from = packed(bytes, member, where);
    unpacked_bytes += member.unpacked_bytes;
    if (unpacked_bytes > kMostUnpacked_bytes)
      throw Error(fmt::format("{}: more than {} bytes unpacked", where, kMostUnpacked_bytes));
    std::vector<std::byte> own;
    if (member.method == 8) own = inflated(from, size_t(member.unpacked_bytes), where);
    const Bytes content = member.method == 8 ? Bytes(own) : from;
    if (crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()) != member.crc)
      throw Error(where + ": its checksum is wrong");
    FileTensor tensor = parse_npy(content, where);
    tensor.name =
        member.name.ends_with(".npy") ? member.name.substr(0, member.name.size() - 4) : member.name;
    const auto same = [&](const FileTensor& other) { return other.name == tensor.name; };
    if (std::ranges::any_of(tensors, same)) throw Error(where + ": comes twice");
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace attest::core
