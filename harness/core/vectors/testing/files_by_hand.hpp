// For the tests of this folder: files put together byte by byte, as their formats are documented.
#pragma once
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/inputs/formats/bytes.hpp"
#include "core/inputs/testing/file_bytes.hpp"

namespace attest::core {

/// Writes a file, and the folders on the way to it.
inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

template <class T>
std::string packed_values(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline std::string safetensors_file(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

/// Version 1.0, as numpy.save writes it: padded to 64 bytes with blanks and a newline.
inline std::string npy_file(std::string header, const std::string& data) {
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  const auto size = uint16_t(header.size());
  return std::string("\x93NUMPY\x01\x00", 8) +
         std::string(reinterpret_cast<const char*>(&size), 2) + header + data;
}
inline std::string npy_header(const std::string& descr, const std::string& shape,
                              bool fortran = false) {
  return "{'descr': " + descr + ", 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

struct ZipMember {
  std::string name, content;
  bool deflated = false;
};

/// A zip as the zipfile module of Python writes it.
inline std::string zip_file(const std::vector<ZipMember>& members) {
  auto u16 = [](size_t value) { return packed_values<uint16_t>({uint16_t(value)}); };
  auto u32 = [](size_t value) { return packed_values<uint32_t>({uint32_t(value)}); };
  std::string file, directory;
  for (const ZipMember& member : members) {
    std::string body = member.content;
    if (member.deflated) {
      z_stream stream{};
      deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      body.resize(deflateBound(&stream, member.content.size()));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(member.content.data()));
      stream.avail_in = uInt(member.content.size());
      stream.next_out = reinterpret_cast<Bytef*>(body.data());
      stream.avail_out = uInt(body.size());
      deflate(&stream, Z_FINISH);
      body.resize(stream.total_out);
      deflateEnd(&stream);
    }
    const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(member.content.data()),
                            uInt(member.content.size()));
    const std::string common = u16(20) + u16(0) + u16(member.deflated ? 8 : 0) + u32(0) + u32(crc) +
                               u32(body.size()) + u32(member.content.size()) +
                               u16(member.name.size());
    const size_t offset = file.size();
    file += "PK\x03\x04" + common + u16(0) + member.name + body;
    directory += "PK\x01\x02" + u16(20) + common + u16(0) + u16(0) + u16(0) + u16(0) + u32(0) +
                 u32(offset) + member.name;
  }
  const size_t at = file.size();
  return file + directory + "PK\x05\x06" + u16(0) + u16(0) + u16(members.size()) +
         u16(members.size()) + u32(directory.size()) + u32(at) + u16(0);
}

/// protobuf's wire format: varints, and fields with a length.
inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += char(value | 128);
  return bytes + char(value);
}
inline std::string number_field(int field, uint64_t value) {
  return varint(uint64_t(field) << 3) + varint(value);
}
inline std::string bytes_field(int field, const std::string& value) {
  return varint(uint64_t(field) << 3 | 2) + varint(value.size()) + value;
}
inline std::string float_field(int field, float value) {
  return varint(uint64_t(field) << 3 | 5) + packed_values<float>({value});
}

/// TensorProto: 1 dims, 2 data_type, 8 name, 9 raw_data.
inline std::string tensor_file(const std::vector<int64_t>& dims, int type, const std::string& raw,
                               const std::string& name = "") {
  std::string file;
  for (const int64_t dim : dims) file += number_field(1, uint64_t(dim));
  file += number_field(2, uint64_t(type));
  if (!name.empty()) file += bytes_field(8, name);
  return file + bytes_field(9, raw);
}

/// AttributeProto: 1 name, 2 f, 3 i, 20 type (1 FLOAT, 2 INT).
inline std::string int_attribute(const std::string& name, int64_t value) {
  return bytes_field(1, name) + number_field(3, uint64_t(value)) + number_field(20, 2);
}
inline std::string float_attribute(const std::string& name, float value) {
  return bytes_field(1, name) + float_field(2, value) + number_field(20, 1);
}

/// ModelProto of one node. NodeProto: 1 input, 2 output, 4 op_type, 5 attribute, 7 domain.
/// GraphProto: 1 node, 11 input, 12 output.
inline std::string model_file(const std::string& op_type, const std::vector<std::string>& inputs,
                              const std::vector<std::string>& outputs,
                              const std::vector<std::string>& attributes, int64_t opset,
                              const std::string& domain = "") {
  std::string node, graph;
  for (const std::string& input : inputs) node += bytes_field(1, input);
  for (const std::string& output : outputs) node += bytes_field(2, output);
  node += bytes_field(4, op_type);
  for (const std::string& attribute : attributes) node += bytes_field(5, attribute);
  if (!domain.empty()) node += bytes_field(7, domain);
  graph += bytes_field(1, node);
  for (const std::string& input : inputs)
    if (!input.empty()) graph += bytes_field(11, bytes_field(1, input));
  for (const std::string& output : outputs)
    if (!output.empty()) graph += bytes_field(12, bytes_field(1, output));
  return number_field(1, 10) + bytes_field(7, graph) +
         bytes_field(8, bytes_field(1, domain) + number_field(2, uint64_t(opset)));
}

}  // namespace attest::core
