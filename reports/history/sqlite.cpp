#include "reports/history/sqlite.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

namespace attest::reports {

Database::Database(const std::string& path, bool create, std::chrono::milliseconds wait)
    : path_(path) {
  const int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
  int code = sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr);
  if (code == SQLITE_CANTOPEN && !create) {  // a folder that may only be read
    sqlite3_close(handle_);
    code = sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READONLY, nullptr);
  }
  if (code != SQLITE_OK) {
    const std::string why = sqlite3_errstr(code);
    sqlite3_close(handle_);
    throw core::MachineError(fmt::format("{}: {}", path, why));
  }
  sqlite3_busy_timeout(handle_, int(wait.count()));
}

Database::~Database() { sqlite3_close(handle_); }

void Database::refuse(int code) const {
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR ||
      code == SQLITE_MISMATCH)
    throw DamagedDatabase(
        fmt::format("{}: is damaged ({}); it holds nothing that the results do not: attest "
                    "history rebuild RESULTS.jsonl... --index {}",
                    path_, sqlite3_errmsg(handle_), path_));
  throw core::MachineError(fmt::format("{}: {}", path_, sqlite3_errmsg(handle_)));
}

void Database::run(const char* statements) {
  if (const int code = sqlite3_exec(handle_, statements, nullptr, nullptr, nullptr);
      code != SQLITE_OK)
    refuse(code);
}

int64_t Database::number(const char* statement) {
  Statement one(*this, statement);
  return one.next() ? one.integer(0) : 0;
}

Statement::Statement(Database& database, const char* text) : database_(database) {
  check(sqlite3_prepare_v2(database.handle_, text, -1, &handle_, nullptr));
}

Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::check(int code) const {
  if (code != SQLITE_OK) database_.refuse(code);
}

Statement& Statement::with(const std::string& text) {
  check(sqlite3_bind_text(handle_, ++bound_, text.data(), int(text.size()), SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::with(int64_t number) {
  check(sqlite3_bind_int64(handle_, ++bound_, number));
  return *this;
}

Statement& Statement::with(const std::optional<double>& number) {
  ++bound_;
  check(number ? sqlite3_bind_double(handle_, bound_, *number)
               : sqlite3_bind_null(handle_, bound_));
  return *this;
}

bool Statement::next() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.refuse(code);
  return false;
}

void Statement::run() {
  next();
  check(sqlite3_reset(handle_));
  bound_ = 0;
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  return data ? std::string(data, size_t(sqlite3_column_bytes(handle_, column))) : std::string();
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }

std::optional<double> Statement::number(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return {};
  return sqlite3_column_double(handle_, column);
}

}  // namespace attest::reports
