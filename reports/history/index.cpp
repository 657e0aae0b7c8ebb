#include "reports/history/index.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/record/case_key.hpp"
#include "core/statistics/statistics.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/tensor.hpp"
#include "reports/history/sqlite.hpp"
#include "reports/table.hpp"
#include "reports/words/machine.hpp"

namespace attest::reports {
namespace {

namespace fs = std::filesystem;
using core::Record;
using core::Results;

// "atst": tells an index from other files of SQLite. Its version grows when a table changes, or the
// name of a machine (machine.hpp): series under another name would end without a word. Version 2
// names clock caps of boards and CPUs by their parts.
constexpr int64_t kApplication = 0x61747374, kVersion = 2;

// The columns of a series that are texts. `threads` comes last, a number.
constexpr std::pair<const char*, std::string SeriesKey::*> kTexts[] = {
    {"suite", &SeriesKey::suite},   {"case_name", &SeriesKey::case_name},
    {"dtype", &SeriesKey::dtype},   {"impl", &SeriesKey::impl},
    {"spec", &SeriesKey::spec},     {"inputs", &SeriesKey::inputs},
    {"device", &SeriesKey::device}, {"machine", &SeriesKey::machine},
    {"build", &SeriesKey::build}};
constexpr const char* kThreads = "threads";

/// The columns of a series: each name with `after_text`, or `after_number`, joined by `between`.
std::string columns(const char* after_text = "", const char* after_number = "",
                    const char* between = ", ") {
  std::string text;
  for (const auto& [name, member] : kTexts)
    text += fmt::format("{}{}{}", name, after_text, between);
  return text + kThreads + after_number;
}

std::string tables() {
  return fmt::format(R"(
  PRAGMA application_id = {};
  PRAGMA user_version = {};
  CREATE TABLE runs (id INTEGER PRIMARY KEY, header TEXT NOT NULL UNIQUE, started TEXT NOT NULL,
    "commit" TEXT NOT NULL);
  CREATE TABLE files (path TEXT PRIMARY KEY, run INTEGER NOT NULL);
  CREATE TABLE series (id INTEGER PRIMARY KEY, {}, UNIQUE ({}));
  CREATE TABLE points (series INTEGER NOT NULL, run INTEGER NOT NULL, plugin_hash TEXT NOT NULL,
    number INTEGER NOT NULL, verdict TEXT NOT NULL, time_ns REAL, memory_bytes REAL,
    error_ratio REAL, PRIMARY KEY (series, run, plugin_hash, number)) WITHOUT ROWID;
)",
                     kApplication, kVersion, columns(" TEXT NOT NULL", " INTEGER NOT NULL"),
                     columns());
}

[[noreturn]] void refuse_foreign(const std::string& path) {
  throw core::Error(
      fmt::format("{}: is no index of attest; name another file, or remove this one and "
                  "rebuild: attest history rebuild RESULTS.jsonl... --index {}",
                  path, path));
}

bool is_there(const std::string& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (error) throw core::MachineError(fmt::format("{}: {}", path, error.message()));
  return exists;
}

bool is_empty_or_missing(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw core::Error(fmt::format("{}: is a folder", path));
  return !is_there(path) || (fs::is_regular_file(path) && fs::file_size(path) == 0);
}

/// Whether the file begins as an index does: as a file of SQLite, with attest as its application in
/// bytes 68 to 71. Its tables may be damaged.
bool is_index(const std::string& path) {
  static const std::string kFormat("SQLite format 3\0", 16);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw core::MachineError(fmt::format("{}: {}", path, std::strerror(errno)));
  std::string begin(72, '\0');
  if (!in.read(begin.data(), std::streamsize(begin.size())) || !begin.starts_with(kFormat))
    return false;
  int64_t application = 0;
  for (const char byte : begin.substr(68)) application = application << 8 | int64_t(uint8_t(byte));
  return application == kApplication;
}

std::string identity(const Results& file) {
  const std::string header =
      to_json(file.header).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return fmt::format("{:016x}{:016x}", core::hash_text(header), core::hash_text(header, 1));
}

std::optional<double> positive(double value) {
  return std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<double> time_of(const Record& record) {
  return record.outcome.passes() && record.time ? positive(record.time->median_ns) : std::nullopt;
}

std::optional<double> memory_of(const Record& record) {
  return record.outcome.passes() ? used_bytes(record.memory) : std::nullopt;
}

std::optional<double> error_of(const Record& record) {
  const bool judged = std::ranges::any_of(
      record.fills, [](const core::FillRecord& fill) { return fill.judgement.exact_elements > 0; });
  if (!record.outcome.passes() || !judged || !std::isfinite(record.max_ratio)) return {};
  return record.max_ratio;
}

void require_run(const Results& file) {
  if (!file.begun)
    throw core::Error(
        fmt::format("{}: holds no results: it is empty or was cut in its first line", file.path));
  if (file.header.environment.contains("baseline"))
    throw core::Error(fmt::format(
        "{}: is a baseline, whose records are of several runs; add the results that it was made of",
        file.path));
}

std::vector<std::string> warnings_of(const Results& file) {
  std::vector<std::string> warnings;
  if (file.complete && file.closing.finished < file.header.started.substr(0, 19))
    warnings.push_back(fmt::format(
        "{}: ended ({}) before it began ({}): its clock was set back, and its place in the history "
        "may be wrong",
        file.path, file.closing.finished, file.header.started));
  if (!file.complete)
    warnings.push_back(fmt::format("{}: the run did not end; add it again once it has", file.path));
  return warnings;
}

SeriesKey key_of(const Results& file, const Record& record) {
  return {.suite = record.suite,
          .case_name = record.case_name,
          .dtype = record.dtype,
          .impl = record.impl,
          .spec = record.spec,
          .inputs = record.inputs,
          .device = record.device,
          .machine = machine(file, record),
          .build = build(file),
          .threads = record.threads};
}

Statement& bind(Statement& statement, const SeriesKey& key) {
  for (const auto& [name, member] : kTexts) statement.with(key.*member);
  return statement.with(int64_t{key.threads});
}

std::string find_series() {
  return "SELECT id FROM series WHERE " + columns(" = ?", " = ?", " AND ");
}

}  // namespace

struct HistoryIndex::Impl {
  Impl(const std::string& file, bool create) : path(file), database(file, create) {}

  std::string path;
  mutable Database database;

  /// The folder from which paths in the index count, without symbolic links.
  fs::path folder() const { return fs::weakly_canonical(fs::absolute(path)).parent_path(); }
  std::string stored(const std::string& file) const {
    return fs::proximate(fs::absolute(file), folder()).string();
  }

  int64_t application() { return database.number("PRAGMA application_id"); }
  void make_tables() { database.run(tables().c_str()); }

  bool is_whole() {
    Statement check(database, "PRAGMA quick_check(1)");
    return check.next() && check.text(0) == "ok";
  }

  void drop_tables() {
    std::vector<std::string> names;
    {
      Statement tables(database,
                       "SELECT name FROM sqlite_master WHERE type = 'table' AND "
                       "name NOT LIKE 'sqlite%'");
      while (tables.next()) names.push_back(tables.text(0));
    }
    for (const std::string& name : names)
      database.run(fmt::format("DROP TABLE \"{}\"", name).c_str());
  }

  /// Runs `change` as one transaction. If it throws, the file stays as it was.
  template <typename Change>
  void transact(const Change& change) {
    database.run("BEGIN IMMEDIATE");
    try {
      change();
      database.run("COMMIT");
    } catch (...) {
      try {
        database.run("ROLLBACK");
      } catch (const core::Error&) {  // the first error says more
      }
      throw;
    }
  }

  int64_t series_of(const SeriesKey& key) {
    {
      Statement find(database, find_series().c_str());
      if (bind(find, key).next()) return find.integer(0);
    }
    std::string places = "?";
    for (size_t i = 0; i < std::size(kTexts); ++i) places += ", ?";
    Statement insert(database,
                     fmt::format("INSERT INTO series ({}) VALUES ({})", columns(), places).c_str());
    bind(insert, key).run();
    return database.number("SELECT last_insert_rowid()");
  }

  int64_t run_of(const Results& file, bool& known) {
    const std::string id = identity(file);
    {
      Statement find(database, "SELECT id FROM runs WHERE header = ?");
      known = find.with(id).next();
      if (known) return find.integer(0);
    }
    Statement(database, R"(INSERT INTO runs (header, started, "commit") VALUES (?, ?, ?))")
        .with(id)
        .with(file.header.started)
        .with(fact(file, "build", "commit"))
        .run();
    return database.number("SELECT last_insert_rowid()");
  }

  int64_t points() { return database.number("SELECT count(*) FROM points"); }

  Added add(const Results& file) {
    Added added{.records = file.records.size(), .warnings = warnings_of(file)};
    const int64_t run = run_of(file, added.known_run), before = points();
    Statement(database, "INSERT OR REPLACE INTO files (path, run) VALUES (?, ?)")
        .with(stored(file.path))
        .with(run)
        .run();
    Statement insert(database,
                     "INSERT OR REPLACE INTO points (series, run, plugin_hash, number, verdict, "
                     "time_ns, memory_bytes, error_ratio) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    std::map<std::pair<int64_t, std::string>, int64_t> numbers;  // of equal keys in one file
    for (const Record& record : file.records) {
      const int64_t series = series_of(reports::key_of(file, record));
      insert.with(series)
          .with(run)
          .with(record.plugin_hash)
          .with(numbers[{series, record.plugin_hash}]++)
          .with(std::string(name(record.outcome.verdict())))
          .with(time_of(record))
          .with(memory_of(record))
          .with(error_of(record))
          .run();
    }
    added.fresh = size_t(points() - before);
    return added;
  }
};

HistoryIndex::HistoryIndex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HistoryIndex::~HistoryIndex() = default;
HistoryIndex::HistoryIndex(HistoryIndex&&) noexcept = default;

HistoryIndex HistoryIndex::open(const std::string& path) {
  if (is_empty_or_missing(path))
    throw core::Error(
        fmt::format("{}: is {}; attest history add RESULTS.jsonl... --index {} makes it", path,
                    is_there(path) ? "empty" : "not there", path));
  if (!is_index(path)) refuse_foreign(path);
  auto impl = std::make_unique<Impl>(path, false);
  if (const int64_t version = impl->database.number("PRAGMA user_version"); version != kVersion)
    throw core::Error(
        fmt::format("{}: was written by another attest (version {} of the index, not {}): "
                    "attest history rebuild RESULTS.jsonl... --index {}",
                    path, version, kVersion, path));
  return HistoryIndex(std::move(impl));
}

FilledIndex HistoryIndex::add(const std::string& path, const std::vector<Results>& files) {
  for (const Results& file : files) require_run(file);
  FilledIndex filled{
      is_empty_or_missing(path) ? HistoryIndex(std::make_unique<Impl>(path, true)) : open(path),
      {}};
  Impl& impl = *filled.index.impl_;
  impl.transact([&] {
    if (impl.application() != kApplication) impl.make_tables();  // nobody else made them
    for (const Results& file : files) filled.added.push_back(impl.add(file));
  });
  return filled;
}

namespace {

/// A file beside the index, which is removed unless it takes the index's place.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(fs::canonical(path)), name_(fmt::format("{}.{}.partial", path_, getpid())) {
    remove();
  }
  ~NewFile() { remove(); }
  const std::string& name() const { return name_; }
  void replace() {
    std::error_code error;
    fs::remove(path_ + "-journal", error);  // SQLite would undo the new file's pages from it
    fs::rename(name_, path_, error);
    if (error) throw core::MachineError(fmt::format("{}: {}", path_, error.message()));
  }

 private:
  void remove() const {
    std::error_code ignored;
    fs::remove(name_, ignored);
    fs::remove(name_ + "-journal", ignored);
  }
  std::string path_, name_;
};

}  // namespace

std::optional<std::vector<Added>> HistoryIndex::refill(const std::string& path,
                                                       const std::vector<Results>& files) {
  std::vector<Added> added;
  try {
    Impl old(path, false);
    if (!old.is_whole()) return {};
    old.transact([&] {
      old.drop_tables();
      old.make_tables();
      for (const Results& file : files) added.push_back(old.add(file));
    });
  } catch (const DamagedDatabase&) {
    return {};
  }
  return added;
}

FilledIndex HistoryIndex::rebuild(const std::string& path, const std::vector<Results>& files) {
  for (const Results& file : files) require_run(file);
  if (is_empty_or_missing(path)) return add(path, files);
  if (!is_index(path)) refuse_foreign(path);
  std::optional<std::vector<Added>> added = refill(path, files);
  if (!added) {
    NewFile fresh(path);
    added = add(fresh.name(), files).added;
    fresh.replace();
  }
  return {open(path), std::move(*added)};
}

std::vector<std::string> HistoryIndex::files() const {
  Statement all(impl_->database, "SELECT path FROM files ORDER BY rowid");
  std::vector<std::string> paths;
  while (all.next()) paths.push_back(fs::proximate(impl_->folder() / all.text(0)));
  return paths;
}

std::vector<SeriesKey> HistoryIndex::keys() const {
  Statement all(
      impl_->database,
      fmt::format("SELECT {} FROM series ORDER BY suite, case_name, dtype, impl, id", columns())
          .c_str());
  std::vector<SeriesKey> keys;
  while (all.next()) {
    SeriesKey& key = keys.emplace_back();
    int at = 0;
    for (const auto& [name, member] : kTexts) key.*member = all.text(at++);
    key.threads = int32_t(all.integer(at));
  }
  return keys;
}

std::vector<SeriesKey> HistoryIndex::keys_of(const std::vector<Results>& runs) const {
  std::set<SeriesKey> own;
  for (const Results& run : runs)
    for (const Record& record : run.records) own.insert(reports::key_of(run, record));
  std::vector<SeriesKey> known = keys();
  std::erase_if(known, [&](const SeriesKey& key) { return !own.contains(key); });
  return known;
}

namespace {

std::optional<double> middle(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(core::summarise(values).median);
}

/// The records of one run, until they are combined.
struct RunValues {
  std::vector<double> time, memory, error;

  void add(const Statement& row) {
    for (const auto& [column, values] :
         {std::pair(4, &time), std::pair(5, &memory), std::pair(6, &error)})
      if (const std::optional<double> value = row.number(column)) values->push_back(*value);
  }
  void put_into(HistoryPoint& point) const {
    point.time_ns = middle(time);
    point.memory_bytes = middle(memory);
    point.error_ratio = middle(error);
  }
};

}  // namespace

HistorySeries HistoryIndex::series(const SeriesKey& key) const {
  HistorySeries series{key, {}};
  Statement find(impl_->database, find_series().c_str());
  if (!bind(find, key).next()) return series;
  Statement rows(impl_->database,
                 R"(SELECT runs.id, runs.started, runs."commit", plugin_hash, time_ns, memory_bytes,
                      error_ratio, verdict
                    FROM points JOIN runs ON runs.id = points.run WHERE series = ?
                    ORDER BY runs.started, runs.header, number)");
  rows.with(find.integer(0));
  int64_t run = 0;
  RunValues values;
  while (rows.next()) {
    if (series.points.empty() || rows.integer(0) != run) {
      if (!series.points.empty()) values.put_into(series.points.back());
      values = {};
      run = rows.integer(0);
      series.points.push_back({rows.text(1), rows.text(2), rows.text(3), rows.text(7), {}, {}, {}});
    } else if (rows.text(7) != "pass") {
      series.points.back().verdict = rows.text(7);
    }
    values.add(rows);
  }
  if (!series.points.empty()) values.put_into(series.points.back());
  return series;
}

}  // namespace attest::reports
