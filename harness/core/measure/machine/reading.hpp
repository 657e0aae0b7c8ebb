// A value that a file of /proc, /sys or /etc holds, or the reason why there is none. A value that
// cannot be read is never 0.
//
//   const Reading<double> rate = read_value(root / "sys/class/devfreq/17000000.gpu/cur_freq");
//   if (rate.value) use(*rate.value);
//   else fmt::print("no clock: {}\n", rate.missing);  // "cur_freq: Permission denied"
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace attest::core {

template <class T>
struct Reading {
  std::optional<T> value;
  std::string missing;  // why there is no value; "": there is one

  static Reading of(T value) { return {std::move(value), {}}; }
  static Reading none(std::string missing) { return {std::nullopt, std::move(missing)}; }
  /// A function of the value; the reason stays.
  template <class Of>
  auto then(const Of& of) const -> Reading<decltype(of(*value))> {
    if (!value) return {std::nullopt, missing};
    return {of(*value), {}};
  }
};

/// The whole file without its final newlines, blanks and NULs. It is never blocked by a node that
/// has nothing to say. The reasons: the system's message (no such file, permission denied, EAGAIN
/// of a sensor that is off), or that the file is empty.
Reading<std::string> read_reading(const std::filesystem::path& file);

/// The number that a file holds and nothing else.
Reading<double> read_value(const std::filesystem::path& file);
/// The number that `text` is, without anything before or after it.
Reading<double> parse_value(std::string_view text);

/// The value times `scale`, if it is within what `what` can have: `low` to `high`, in `unit`. A
/// value beyond that is garbage or has another unit.
Reading<double> within(const Reading<double>& reading, double scale, double low, double high,
                       std::string_view unit, std::string_view what);

}  // namespace attest::core
