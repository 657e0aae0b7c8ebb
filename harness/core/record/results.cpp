#include "core/record/results.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/record/races.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/input_file.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

void read_line(const std::string& text, Results& results,
               const std::function<void(Record)>& visit) {
  const json line = json::parse(text);
  const auto type = line.at("type").get<std::string>();
  if (!results.begun) {
    results.header = header_from_json(line);
    results.begun = true;
  } else if (type == "header") {
    throw Error("begins another run; give each run as a file of its own");
  }
  if (type == "end") {
    results.closing = closing_from_json(line);
    results.complete = true;
  }
  if (type == "tokens") {
    TokenPicture picture = token_picture_from_json(line);
    results.tokens.try_emplace(picture.inputs, picture);
  }
  if (type == "result") visit(record_from_json(line));
}

}  // namespace

Results visit_results(const std::string& path, const std::function<void(Record)>& visit) {
  std::ifstream file = open_input(path, "; it must be a file that `attest run -o FILE` wrote");
  Results results{.path = path};
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) {  // a torn line; but a file that is none of ours is not taken for one that has
                       // not begun
      if (number == 0 && !line.starts_with("{\""))
        throw Error(fmt::format("{}: holds no results; name another file", path));
      break;
    }
    ++number;
    try {
      read_line(line, results, visit);
    } catch (const json::exception&) {
      throw Error(
          fmt::format("{}: line {} is no line of results; name another file", path, number));
    } catch (const Error& error) {
      throw Error(fmt::format("{}: line {}: {}", path, number, error.what()));
    }
    results.bytes += line.size() + 1;
  }
  return results;
}

Results read_results(const std::string& path) {
  std::vector<Record> records;
  Results results =
      visit_results(path, [&](Record record) { records.push_back(std::move(record)); });
  overrule_races(records);
  results.records = std::move(records);
  return results;
}

}  // namespace attest::core
