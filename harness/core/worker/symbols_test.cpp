// Names from symbol tables: of an ELF file that the test writes, whole, damaged and stripped, and
// of this program.
#include "core/worker/symbols.hpp"

#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace attest::core {
namespace {

// An ELF file of a header, symbols, their names, and the sections of both.
struct File {
  ElfW(Ehdr) header {};
  std::vector<ElfW(Sym)> symbols;
  std::string names = std::string("\0first\0second\0", 14);
  ElfW(Shdr) sections[3] = {};

  File() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_shentsize = sizeof(ElfW(Shdr));
    header.e_shnum = 3;
    add(STT_OBJECT, 1, 0x100, 0x100);
    add(STT_FUNC, 1, 0x100, 0x10);
    add(STT_FUNC, 7, 0x120, 0x20);
    const size_t symbols_bytes = symbols.size() * sizeof(ElfW(Sym));
    sections[1].sh_type = SHT_SYMTAB;
    sections[1].sh_link = 2;
    sections[1].sh_offset = sizeof(header);
    sections[1].sh_size = symbols_bytes;
    sections[2].sh_type = SHT_STRTAB;
    sections[2].sh_offset = sizeof(header) + symbols_bytes;
    sections[2].sh_size = names.size();
    header.e_shoff = sections[2].sh_offset + names.size();
  }
  void add(unsigned char type, uint32_t name, uint64_t begin, uint64_t bytes) {
    ElfW(Sym) symbol{};
    symbol.st_info = ELF64_ST_INFO(STB_LOCAL, type);
    symbol.st_name = name;
    symbol.st_value = begin;
    symbol.st_size = bytes;
    symbols.push_back(symbol);
  }
  std::string bytes() const {
    std::string all(reinterpret_cast<const char*>(&header), sizeof(header));
    all.append(reinterpret_cast<const char*>(symbols.data()), symbols.size() * sizeof(ElfW(Sym)));
    all += names;
    return all.append(reinterpret_cast<const char*>(sections), sizeof(sections));
  }
};

class Symbols : public ::testing::Test {
 protected:
  Symbols() { std::filesystem::remove(path_); }
  ~Symbols() override { std::filesystem::remove(path_); }

  // "-": no name.
  std::string name_at(const std::string& bytes, uint64_t offset) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    const SymbolTable table(path_.c_str());
    const char* name = table.function_at(offset);
    return name ? name : "-";
  }
  std::string name_at(const File& file, uint64_t offset) const {
    return name_at(file.bytes(), offset);
  }

  std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) / ("symbols_" + std::to_string(getpid()));
};

TEST_F(Symbols, AreOfTheFunctionThatHoldsAnOffset) {
  const File file;
  EXPECT_EQ(name_at(file, 0xff), "-");
  EXPECT_EQ(name_at(file, 0x100), "first") << "not the object that lies there, too";
  EXPECT_EQ(name_at(file, 0x10f), "first");
  EXPECT_EQ(name_at(file, 0x110), "-") << "between two functions";
  EXPECT_EQ(name_at(file, 0x13f), "second");
  EXPECT_EQ(name_at(file, 0x140), "-");
}

TEST_F(Symbols, OfAStrippedFileAreNotKnown) {
  File file;
  file.sections[1].sh_type = SHT_DYNSYM;
  EXPECT_EQ(name_at(file, 0x100), "-");
}

TEST_F(Symbols, OfADamagedFileAreNotRead) {
  const std::string whole = File().bytes();
  EXPECT_EQ(name_at(whole.substr(0, whole.size() - 1), 0x100), "-") << "sections are cut off";
  EXPECT_EQ(name_at(whole.substr(0, sizeof(ElfW(Ehdr)) - 1), 0x100), "-");
  EXPECT_EQ(name_at("", 0x100), "-");
  File no_elf, other_sections, far_link, long_symbols, far_names, no_end, far_name;
  no_elf.header.e_ident[0] = 'x';
  EXPECT_EQ(name_at(no_elf, 0x100), "-");
  other_sections.header.e_shentsize = 1;
  EXPECT_EQ(name_at(other_sections, 0x100), "-");
  far_link.sections[1].sh_link = 3;
  EXPECT_EQ(name_at(far_link, 0x100), "-");
  long_symbols.sections[1].sh_size = uint64_t(1) << 62;
  EXPECT_EQ(name_at(long_symbols, 0x100), "-");
  far_names.sections[2].sh_offset = uint64_t(1) << 62;
  EXPECT_EQ(name_at(far_names, 0x100), "-");
  no_end.sections[2].sh_size = 13;  // without the 0 behind "second"
  EXPECT_EQ(name_at(no_end, 0x120), "-");
  EXPECT_EQ(name_at(no_end, 0x100), "first");
  far_name.symbols[1].st_name = 14;
  EXPECT_EQ(name_at(far_name, 0x100), "-");
}

TEST_F(Symbols, OfNoFileAreNotKnown) {
  EXPECT_EQ(SymbolTable("/no/such/file").function_at(0x100), nullptr);
}

// A function that no library exports.
[[gnu::noinline]] int in_no_export() {
  asm volatile("");
  return 1;
}

TEST_F(Symbols, OfThisProgramAreThere) {
  ASSERT_EQ(in_no_export(), 1);
  uint64_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<uint64_t*>(out) = info->dlpi_addr;
        return 1;  // the program itself comes first
      },
      &base);
  const SymbolTable table("/proc/self/exe");
  const char* name = table.function_at(reinterpret_cast<uint64_t>(&in_no_export) - base);
  ASSERT_NE(name, nullptr);
  EXPECT_NE(std::string(name).find("in_no_export"), std::string::npos) << name;
}

}  // namespace
}  // namespace attest::core
