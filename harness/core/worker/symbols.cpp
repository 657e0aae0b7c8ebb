#include "core/worker/symbols.hpp"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace attest::core {
namespace {

// Whether `count` elements of `size` bytes at `begin` lie in the file. It may be no ELF file, or
// somebody may be writing it.
bool lies_in(uint64_t bytes, uint64_t begin, uint64_t count, uint64_t size) {
  return begin <= bytes && count <= (bytes - begin) / size;
}

}  // namespace

SymbolTable::SymbolTable(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  struct stat facts{};
  if (fstat(file, &facts) == 0 && facts.st_size > 0) {
    void* data = mmap(nullptr, size_t(facts.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (data != MAP_FAILED) {
      data_ = static_cast<const unsigned char*>(data);
      bytes_ = size_t(facts.st_size);
    }
  }
  close(file);
}

SymbolTable::~SymbolTable() {
  if (data_) munmap(const_cast<unsigned char*>(data_), bytes_);
}

const char* SymbolTable::function_at(uint64_t offset) const {
  ElfW(Ehdr) header;
  if (bytes_ < sizeof(header)) return nullptr;
  std::memcpy(&header, data_, sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_shentsize != sizeof(ElfW(Shdr)) ||
      !lies_in(bytes_, header.e_shoff, header.e_shnum, sizeof(ElfW(Shdr))))
    return nullptr;
  const auto section = [&](size_t number) {
    ElfW(Shdr) read;
    std::memcpy(&read, data_ + header.e_shoff + number * sizeof(read), sizeof(read));
    return read;
  };
  for (size_t number = 0; number < header.e_shnum; ++number) {
    const ElfW(Shdr) symbols = section(number);
    if (symbols.sh_type != SHT_SYMTAB || symbols.sh_link >= header.e_shnum) continue;
    const ElfW(Shdr) names = section(symbols.sh_link);
    const size_t count = symbols.sh_size / sizeof(ElfW(Sym));
    if (!lies_in(bytes_, symbols.sh_offset, count, sizeof(ElfW(Sym))) ||
        !lies_in(bytes_, names.sh_offset, names.sh_size, 1))
      return nullptr;
    for (size_t i = 0; i < count; ++i) {
      ElfW(Sym) symbol;
      std::memcpy(&symbol, data_ + symbols.sh_offset + i * sizeof(symbol), sizeof(symbol));
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || offset < symbol.st_value ||
          offset - symbol.st_value >= symbol.st_size || symbol.st_name >= names.sh_size)
        continue;
      const unsigned char* name = data_ + names.sh_offset + symbol.st_name;
      const bool ends = std::memchr(name, 0, names.sh_size - symbol.st_name) != nullptr;
      return ends ? reinterpret_cast<const char*>(name) : nullptr;
    }
  }
  return nullptr;
}

}  // namespace attest::core
