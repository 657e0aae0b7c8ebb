#include "testing/mutants/matrix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"
#include "testing/mutants/expectations.hpp"

namespace attest::testing {
namespace {

const char* outcome_name(Trial::Outcome outcome) {
  switch (outcome) {
    case Trial::Outcome::kCaught: return "caught";
    case Trial::Outcome::kEquivalent: return "equivalent";
    default: return "got away";
  }
}

// A relation costs two runs and no golden, a fill one run and a golden.
bool is_relation(const std::string& check) { return check.starts_with("relation "); }
bool is_mutant(const MatrixRow& row) {
  return row.mutant.starts_with("mutant_") || row.mutant.starts_with("step_");
}
std::string short_name(const std::string& mutant) {
  return mutant.starts_with("mutant_") ? mutant.substr(7) : mutant;
}

std::string short_size(int64_t tokens) {
  return tokens < 10000 ? std::to_string(tokens) : std::to_string((tokens + 500) / 1000) + "k";
}

// "61 197 4099", or "61 to 65551 " where no size that was tried is missing between.
std::string print_sizes(const std::set<int64_t>& sizes, const std::set<int64_t>& tried) {
  std::string text;
  for (auto at = tried.begin(); at != tried.end(); ++at) {
    if (!sizes.contains(*at)) continue;
    auto last = at;
    while (std::next(last) != tried.end() && sizes.contains(*std::next(last))) ++last;
    text += text.empty() ? "" : ", ";
    text +=
        last == at ? short_size(*at) : fmt::format("{} - {}", short_size(*at), short_size(*last));
    at = last;
  }
  return text;
}

using Sizes = std::set<int64_t>;

// Of one mutant.
struct Line {
  Sizes tried;                                // where it is wrong
  std::map<std::string, Sizes> seen, missed;  // by check
  std::map<std::string, Sizes> equivalent;    // by family
  int64_t caught = 0, wrong = 0;              // trials
};

std::map<std::string, Line> lines_of(const std::vector<MatrixRow>& rows,
                                     const std::set<std::string>& checks) {
  std::map<std::string, Line> lines;
  for (const MatrixRow& row : rows) {
    if (!is_mutant(row)) continue;
    Line& line = lines[row.mutant];
    if (row.outcome == "equivalent") {
      line.equivalent[row.family].insert(row.tokens);
      continue;
    }
    line.tried.insert(row.tokens);
    ++line.wrong;
    line.caught += row.outcome == "caught";
    for (const std::string& check : checks) {
      const bool saw = std::find(row.checks.begin(), row.checks.end(), check) != row.checks.end();
      if (saw || row.all_checks) (saw ? line.seen : line.missed)[check].insert(row.tokens);
    }
  }
  return lines;
}

std::string print_table(const std::map<std::string, Line>& lines,
                        const std::set<std::string>& checks) {
  std::string text =
      fmt::format("| mutant | caught of wrong | {} |\n|---|---|", fmt::join(checks, " | "));
  for (size_t i = 0; i < checks.size(); ++i) text += "---|";
  text += '\n';
  for (const auto& [mutant, line] : lines) {
    text += fmt::format("| {} | {} of {} |", short_name(mutant), line.caught, line.wrong);
    for (const std::string& check : checks) {
      const auto seen = line.seen.find(check);
      if (seen == line.seen.end()) {
        text += " |";
        continue;
      }
      const auto missed = line.missed.find(check);
      Sizes always = seen->second, sometimes;
      if (missed != line.missed.end())
        for (const int64_t size : missed->second)
          if (always.erase(size)) sometimes.insert(size);
      text += ' ' + print_sizes(always, line.tried);
      if (!sometimes.empty())
        text +=
            fmt::format("{}({})", always.empty() ? "" : " ", print_sizes(sometimes, line.tried));
      text += " |";
    }
    text += '\n';
  }
  return text;
}

std::string print_worth(const std::map<std::string, CheckWorth>& worth) {
  std::string text =
      "| check | trials it caught | trials that only it caught | their mutants |\n"
      "|---|---|---|---|\n";
  for (const auto& [check, one] : worth) {
    std::string mutants = fmt::format("{}", fmt::join(one.mutants_alone, ", "));
    if (one.alone == 0) mutants = "none: diagnostic";
    text += fmt::format("| {} | {} | {} | {} |\n", check, one.caught, one.alone, mutants);
  }
  return text;
}

std::string print_reasons(const std::vector<MatrixRow>& rows) {
  std::map<std::string, std::set<std::string>>
      said;  // part of a judgement -> mutants that only this part caught, in some trial
  std::map<std::string, int64_t> count;
  for (const MatrixRow& row : rows) {
    if (!is_mutant(row) || row.outcome != "caught") continue;
    const std::set<std::string> different(row.by.begin(), row.by.end());
    for (const std::string& one : different) ++count[one];
    if (different.size() == 1 && row.all_checks)
      said[*different.begin()].insert(short_name(row.mutant));
  }
  std::string text =
      "| output or code | trials | mutants that nothing else caught |\n"
      "|---|---|---|\n";
  for (const auto& [by, trials] : count)
    text += fmt::format("| {} | {} | {} |\n", by, trials,
                        by == "o" ? "most" : fmt::format("{}", fmt::join(said[by], ", ")));
  return text;
}

std::string print_equivalent(const std::map<std::string, Line>& lines) {
  std::string text;
  for (const auto& [mutant, line] : lines) {
    if (line.equivalent.empty()) continue;
    text += fmt::format("- {}:", short_name(mutant));
    for (const auto& [family, sizes] : line.equivalent)
      text += fmt::format(" {} {};", family, print_sizes(sizes, sizes));
    text.back() = '\n';
  }
  return text;
}

std::string print_unseen(const std::vector<MatrixRow>& rows) {
  std::string text;
  for (const MatrixRow& row : rows)
    if (is_mutant(row) && row.outcome == "got away")
      text += fmt::format("- {} on {}, {} tokens, {}: {:.2f} of its gates\n",
                          short_name(row.mutant), row.family, row.tokens, row.dtype, row.worst);
  return text.empty() ? "None.\n" : text;
}

// How many families were tried at each size, in each dtype; and at which sizes a trial ended at the
// first check that caught the mutant.
std::string print_tried(const std::vector<MatrixRow>& rows) {
  std::map<int64_t, std::map<std::string, std::set<std::string>>> families;
  std::set<int64_t> first_only;
  for (const MatrixRow& row : rows) {
    if (!is_mutant(row)) continue;
    families[row.tokens][row.dtype].insert(row.family);
    if (!row.all_checks) first_only.insert(row.tokens);
  }
  std::string text;
  for (const auto& [tokens, dtypes] : families) {
    std::vector<std::string> words;
    for (const auto& [dtype, names] : dtypes)
      words.push_back(fmt::format("{} ({} kinds of case)", dtype, names.size()));
    text += fmt::format("- {} tokens: {}{}\n", tokens, fmt::join(words, ", "),
                        first_only.contains(tokens)
                            ? "; a mutant was done with at the first check that saw it"
                            : "");
  }
  return text;
}

// Implementations of the plugins of other misbehaviour that do what they should: the twins of those
// that do not. A flood is a note, sealed files do not shrink, and a hang in a later run takes more
// runs than are made here (hostile_test has all three).
bool is_right(const std::string& name) {
  static const std::set<std::string> twins = {"naive_minimal", "newer_header",   "older_header",
                                              "plugin_c",      "hostile_floods", "hostile_shrinks",
                                              "hostile_notes"};
  return is_healthy(name) || name.starts_with("honest") || name.starts_with("twin_") ||
         twins.contains(name);
}

// Its first runs are right, and how many more a trial has depends on the machine.
bool misbehaves_late(const std::string& name) {
  static const std::set<std::string> late = {"cheat_all_inputs", "cheat_hiccup", "cheat_mortal",
                                             "hostile_hangs_later"};
  return late.contains(name);
}

std::string print_others(const std::vector<MatrixRow>& rows) {
  std::map<std::string, std::set<std::string>> codes;
  for (const MatrixRow& row : rows)
    if (!is_mutant(row))
      codes[row.mutant].insert(row.outcome == "caught" ? row.checks.front() : row.outcome);
  std::string text = "| implementation | verdicts |\n|---|---|\n";
  for (const auto& [name, all] : codes)
    text += fmt::format("| {} | {} |\n", name, fmt::join(all, ", "));
  return codes.empty() ? "None was there.\n" : text;
}

}  // namespace

std::string MatrixRow::key() const {
  return fmt::format("{} {} {} {}", mutant, family, dtype, tokens);
}

MatrixRow matrix_row(const Trial& trial, bool all_checks) {
  MatrixRow row{.mutant = trial.mutant,
                .family = trial.family,
                .dtype = trial.dtype,
                .tokens = trial.tokens,
                .outcome = outcome_name(trial.outcome),
                .checks = {},
                .by = {},
                .all_checks = all_checks};
  for (const Catch& one : trial.catches) {
    row.checks.push_back(one.check);
    row.by.push_back(one.by);
  }
  if (trial.outcome == Trial::Outcome::kGotAway) row.worst = trial.worst;
  return row;
}

std::string to_line(const MatrixRow& row) {
  nlohmann::ordered_json line{{"mutant", row.mutant},
                              {"family", row.family},
                              {"dtype", row.dtype},
                              {"tokens", row.tokens},
                              {"outcome", row.outcome}};
  if (!row.checks.empty()) {
    line["checks"] = row.checks;
    line["by"] = row.by;
  }
  if (!row.all_checks) line["all_checks"] = false;
  if (row.worst != 0) line["worst"] = row.worst;
  return line.dump();
}

MatrixRow row_of_line(const std::string& text) {
  try {
    const nlohmann::json line = nlohmann::json::parse(text);
    MatrixRow row{.mutant = line.at("mutant"),
                  .family = line.at("family"),
                  .dtype = line.at("dtype"),
                  .tokens = line.at("tokens"),
                  .outcome = line.at("outcome"),
                  .checks = {},
                  .by = {}};
    row.checks = line.value("checks", row.checks);
    row.by = line.value("by", row.by);
    row.all_checks = line.value("all_checks", true);
    row.worst = line.value("worst", 0.0);
    return row;
  } catch (const nlohmann::json::exception& error) {
    throw core::Error(fmt::format("no row of a matrix: {}: {}", text, error.what()));
  }
}

std::map<std::string, CheckWorth> worth_of_checks(const std::vector<MatrixRow>& rows) {
  std::map<std::string, CheckWorth> worth;
  for (const MatrixRow& row : rows) {
    if (!is_mutant(row) || !row.all_checks) continue;
    std::map<bool, int> saw;  // by what a check costs
    for (const std::string& check : row.checks) ++saw[is_relation(check)];
    for (const std::string& check : row.checks) {
      CheckWorth& one = worth[check];
      ++one.caught;
      if (saw[is_relation(check)] == 1) {
        ++one.alone;
        one.mutants_alone.insert(short_name(row.mutant));
      }
    }
  }
  return worth;
}

std::vector<std::string> escapes(const std::vector<MatrixRow>& rows) {
  std::vector<std::string> found;
  std::map<std::string, bool> others;  // whether anything caught it
  for (const MatrixRow& row : rows) {
    if (!is_mutant(row)) {
      if (misbehaves_late(row.mutant)) continue;
      if (!is_right(row.mutant))
        others[row.mutant] |= row.outcome == "caught";
      else if (row.outcome == "caught")
        found.push_back(row.key());
    } else if (row.outcome == "got away") {
      const Expected* known =
          expected(row.mutant, make_case(family(row.family), row.tokens, row.dtype));
      if (!known || known->check) found.push_back(row.key());
    }
  }
  for (const auto& [name, caught] : others)
    if (!caught) found.push_back(name);
  return found;
}

namespace {

// The name of a fill without the number of its round.
std::string fill_of(const std::string& check) {
  const size_t last = check.find_last_not_of("0123456789");
  return last + 1 < check.size() && check[last] == '_' ? check.substr(0, last) : check;
}

// Beside a fill stands what its first round said.
void join_rounds(MatrixRow& row) {
  std::vector<std::string> checks, by;
  for (size_t n = 0; n < row.checks.size(); ++n) {
    std::string fill = fill_of(row.checks[n]);
    if (std::ranges::find(checks, fill) != checks.end()) continue;
    checks.push_back(std::move(fill));
    if (n < row.by.size()) by.push_back(row.by[n]);
  }
  row.checks = std::move(checks);
  row.by = std::move(by);
}

}  // namespace

MatrixRows read_rows(const std::string& path) {
  MatrixRows read;
  std::ifstream file(path);
  std::string maker = "an unknown build";
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const nlohmann::json parsed = nlohmann::json::parse(line);
    if (parsed.contains(kSeconds))
      read.seconds += parsed.at(kSeconds).get<double>();
    else if (parsed.contains(kMadeBy))
      maker = parsed.at(kMadeBy);
    else {
      join_rounds(read.rows.emplace_back(row_of_line(line)));
      ++read.made_by[maker];
    }
  }
  return read;
}

std::string print_matrix(const MatrixRows& all) {
  const std::vector<MatrixRow>& rows = all.rows;
  const std::map<std::string, CheckWorth> worth = worth_of_checks(rows);
  std::set<std::string> checks, mutants, caught;
  for (const MatrixRow& row : rows) {
    if (!is_mutant(row)) continue;
    checks.insert(row.checks.begin(), row.checks.end());
    mutants.insert(row.mutant);
    if (row.outcome == "caught") caught.insert(row.mutant);
  }
  const std::map<std::string, Line> lines = lines_of(rows, checks);
  int64_t wrong = 0, seen = 0;
  for (const auto& [mutant, line] : lines) {
    wrong += line.wrong;
    seen += line.caught;
  }
  std::string text =
      "# Planted bugs and the checks that catch them\n\n"
      "Written by `scripts/mutants.sh`. A mutant is a kernel with a planted bug. A trial runs one "
      "mutant on one problem. It counts if the mutant and the same kernel without the bug write "
      "different bytes.\n\n";
  text += fmt::format(
      "{} of {} mutants are caught; {} of {} trials that count catch their mutant. All trials took "
      "{:.0f} s.\n\n",
      caught.size(), mutants.size(), seen, wrong, all.seconds);
  for (const auto& [build, count] : all.made_by)
    text += fmt::format("Made by {}: {} trials.\n\n", build, count);
  text += "Tried:\n\n" + print_tried(rows) + '\n';
  text +=
      "## Mutant x check x size\n\n"
      "A cell lists the sizes, in tokens, at which the check catches the mutant in all trials. In "
      "brackets: sizes at which it does so in some trials only.\n\n";
  text += print_table(lines, checks) +
          "\n## What each check is worth\n\n"
          "A fill costs one run and a golden, a relation two runs. So \"only it\" compares a fill "
          "with the other fills, and a relation with the other relations. A check that catches "
          "nothing alone is diagnostic.\n\n";
  text += print_worth(worth) +
          "\n## What caught the mutants\n\n"
          "The output that failed, or the reason code of another failure.\n\n" +
          print_reasons(rows);
  text += "\n## What got away\n\n" + print_unseen(rows);
  text +=
      "\n## Where a mutant is equivalent\n\n"
      "The mutant writes the same bytes as the kernel without the bug, or refuses a problem on "
      "which it would.\n\n" +
      print_equivalent(lines);
  return text + "\n## Other misbehaviour\n\n" + print_others(rows);
}

}  // namespace attest::testing
