// The main of a fuzzer where libFuzzer is not at hand. It replays the fuzzer's corpus, and seeded
// mutations of every file of it. How many mutations each file gets is compiled in by CMake
// (ATTEST_MUTATIONS). The environment variable ATTEST_REPLAY_MUTATIONS overrides this number.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/tensor/random.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;
using attest::core::random_below;

struct Seed {
  std::string name;
  Bytes bytes;
};

void add_file(std::vector<Seed>& seeds, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  seeds.push_back({path.filename().string(), Bytes(std::istreambuf_iterator<char>(file), {})});
}

/// The files named, and those of the folders named, by name.
std::vector<Seed> read_corpus(int argc, char** argv) {
  std::vector<Seed> seeds;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      add_file(seeds, argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i]))
      if (entry.is_regular_file()) add_file(seeds, entry.path());
  }
  std::sort(seeds.begin(), seeds.end(),
            [](const Seed& a, const Seed& b) { return a.name < b.name; });
  return seeds;
}

/// Random numbers of one mutation.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  size_t below(size_t n) { return n == 0 ? 0 : size_t(random_below(seed_, index_++, n)); }

 private:
  uint64_t seed_, index_ = 0;
};

/// Puts `with` in the place of bytes [from, to).
void replace(Bytes& bytes, size_t from, size_t to, const Bytes& with) {
  bytes.erase(bytes.begin() + std::ptrdiff_t(from), bytes.begin() + std::ptrdiff_t(to));
  bytes.insert(bytes.begin() + std::ptrdiff_t(from), with.begin(), with.end());
}

/// A decimal number of the text becomes one at the edge of some type.
void replace_number(Bytes& bytes, Dice& dice) {
  constexpr const char* kNumbers[] = {"0",
                                      "1",
                                      "-1",
                                      "2",
                                      "255",
                                      "256",
                                      "65536",
                                      "2147483647",
                                      "2147483648",
                                      "4294967296",
                                      "9223372036854775807",
                                      "18446744073709551615",
                                      "99999999999999999999",
                                      "1e308",
                                      "1e-320",
                                      "nan",
                                      "-inf",
                                      "0x10",
                                      "1.5",
                                      "."};
  const auto is_digit = [](uint8_t c) { return c >= '0' && c <= '9'; };
  const size_t start = dice.below(bytes.size());
  const size_t from = size_t(
      std::find_if(bytes.begin() + std::ptrdiff_t(start), bytes.end(), is_digit) - bytes.begin());
  if (from == bytes.size()) return;
  const size_t to =
      size_t(std::find_if_not(bytes.begin() + std::ptrdiff_t(from), bytes.end(), is_digit) -
             bytes.begin());
  const std::string number = kNumbers[dice.below(std::size(kNumbers))];
  replace(bytes, from, to, Bytes(number.begin(), number.end()));
}

void mutate_once(Bytes& bytes, const std::vector<Seed>& seeds, Dice& dice) {
  const size_t at = dice.below(bytes.size()),
               length = dice.below(std::min<size_t>(bytes.size() - at, 64) + 1);
  const Bytes piece(bytes.begin() + std::ptrdiff_t(at),
                    bytes.begin() + std::ptrdiff_t(at + length));
  switch (dice.below(8)) {
    case 0:
    case 1:
      if (!bytes.empty()) bytes[at] ^= uint8_t(1u << dice.below(8));
      break;
    case 2:
      if (!bytes.empty()) bytes[at] = uint8_t(dice.below(256));
      break;
    case 3: bytes.resize(at); break;
    case 4: replace(bytes, at, at + length, {}); break;
    case 5: replace(bytes, at, at, piece); break;
    case 6: {  // the rest becomes the rest of another seed
      const Bytes& other = seeds[dice.below(seeds.size())].bytes;
      const size_t from = dice.below(other.size() + 1);
      replace(bytes, at, bytes.size(), Bytes(other.begin() + std::ptrdiff_t(from), other.end()));
      break;
    }
    default: replace_number(bytes, dice);
  }
}

/// Runs a copy of exactly its size, so that a sanitizer sees a read past its end.
void run(const Bytes& bytes) {
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Seed> seeds = read_corpus(argc, argv);
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER_OR_FILE...: no file found\n", argv[0]);
    return 1;
  }
  const char* named = std::getenv("ATTEST_REPLAY_MUTATIONS");
  const uint64_t mutations = named ? std::strtoull(named, nullptr, 10) : ATTEST_MUTATIONS;
  for (size_t s = 0; s < seeds.size(); ++s) {
    run(seeds[s].bytes);
    for (uint64_t m = 0; m < mutations; ++m) {
      Dice dice(attest::core::random_bits(s, m));
      Bytes bytes = seeds[s].bytes;
      for (size_t step = 0, steps = 1 + dice.below(4); step < steps; ++step)
        mutate_once(bytes, seeds, dice);
      run(bytes);
    }
  }
  std::printf("%zu files and %llu mutations of each replayed\n", seeds.size(),
              static_cast<unsigned long long>(mutations));
  return 0;
}
