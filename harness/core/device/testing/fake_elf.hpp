// ELF files that hold nothing but code for CUDA devices, for tests.
#pragma once
#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace attest::core {

/// The header of an entry as nvcc 13.0 writes it, beyond its kind, and a few bytes of code.
struct FakeEntry {
  uint16_t kind;  // 1: PTX, 2: SASS
  uint32_t architecture;
  uint64_t flags;              // 0x11; 0x100011 of sm_90a; 0x1208011 of sm_100f
  uint32_t header_bytes = 64;  // more with options of the compiler
  uint64_t code_bytes = 16;
};

inline std::string fake_container(const std::vector<FakeEntry>& entries) {
  std::string all;
  for (const FakeEntry& entry : entries) {
    std::string header(entry.header_bytes, '\0');
    const auto put = [&](size_t offset, const auto& value) {
      std::memcpy(header.data() + offset, &value, sizeof(value));
    };
    put(0, entry.kind);
    put(2, uint16_t{0x101});
    put(4, entry.header_bytes);
    put(8, entry.code_bytes);
    put(28, entry.architecture);
    put(40, entry.flags);
    all += header + std::string(entry.code_bytes, 'c');
  }
  std::string container(16, '\0');
  const uint32_t magic = 0xBA55ED50;
  const uint16_t version = 1, header_bytes = 16;
  const uint64_t bytes = all.size();
  std::memcpy(container.data(), &magic, 4);
  std::memcpy(container.data() + 4, &version, 2);
  std::memcpy(container.data() + 6, &header_bytes, 2);
  std::memcpy(container.data() + 8, &bytes, 8);
  return container + all;
}

/// A file with one section of that name beside the section of names.
inline std::string fake_elf(const std::string& name, const std::string& contents) {
  const std::string names = std::string(1, '\0') + name + '\0' + ".shstrtab" + '\0';
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof(header) + contents.size() + names.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  Elf64_Shdr sections[3]{};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_PROGBITS;
  sections[1].sh_offset = sizeof(header);
  sections[1].sh_size = contents.size();
  sections[2].sh_name = uint32_t(name.size() + 2);
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = sizeof(header) + contents.size();
  sections[2].sh_size = names.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + contents + names +
         std::string(reinterpret_cast<const char*>(sections), sizeof(sections));
}

}  // namespace attest::core
