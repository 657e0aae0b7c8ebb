// A small interface to SQLite for history/index.cpp. It throws on errors, and statements end with
// their scope.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "core/tensor/error.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace attest::reports {

/// The file is damaged.
class DamagedDatabase : public core::Error {
 public:
  using Error::Error;
};

/// All functions here throw DamagedDatabase if the file is damaged. They throw MachineError if it
/// cannot be opened, is locked or not writable, or if the disk is full.
class Database {
 public:
  /// Another process may hold the file locked: statements wait for it as long as `wait`.
  Database(const std::string& path, bool create,
           std::chrono::milliseconds wait = std::chrono::seconds(10));
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  /// Runs statements without values.
  void run(const char* statements);
  int64_t number(const char* statement);
  [[noreturn]] void refuse(int code) const;

 private:
  friend class Statement;
  std::string path_;
  sqlite3* handle_ = nullptr;
};

class Statement {
 public:
  Statement(Database& database, const char* text);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Binds the next value.
  Statement& with(const std::string& text);
  Statement& with(int64_t number);
  Statement& with(const std::optional<double>& number);
  /// Goes to the next row. Returns false after the last row.
  bool next();
  /// Runs a statement that has no rows, and makes it ready for other values.
  void run();
  std::string text(int column) const;
  int64_t integer(int column) const;
  std::optional<double> number(int column) const;

 private:
  void check(int code) const;
  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
  int bound_ = 0;
};

}  // namespace attest::reports
