// Names of functions that a library does not export, from the symbol table of its file.
#pragma once
#include <cstddef>
#include <cstdint>

namespace attest::core {

/// The table .symtab of an ELF file, unless the file is stripped. Nothing here uses the heap, so
/// that it may be asked while the process dies.
class SymbolTable {
 public:
  explicit SymbolTable(const char* path);
  ~SymbolTable();
  SymbolTable(const SymbolTable&) = delete;
  SymbolTable& operator=(const SymbolTable&) = delete;

  /// The mangled name of the function that has `offset`, counted from the start of the library;
  /// null: none is known. It lives as long as this object.
  const char* function_at(uint64_t offset) const;

 private:
  const unsigned char* data_ = nullptr;  // the file
  size_t bytes_ = 0;
};

}  // namespace attest::core
