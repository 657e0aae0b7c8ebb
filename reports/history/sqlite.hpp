// SQLite as history/index.cpp needs it: errors are exceptions, statements end with their scope.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace attest::reports {

class Database {
 public:
  /// Throws Error: it cannot be opened.
  Database(const std::string& path, bool create);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  /// Runs statements without values. Throws Error, as all of these do: the file is damaged, locked,
  /// full or not writable.
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
  /// Goes to the next row; false after the last.
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
