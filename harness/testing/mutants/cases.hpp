// The problems that mutants are tried on: families, each at several sizes and dtypes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace attest::testing {

/// Tokens that are no multiple of anything, up to LiDAR scale.
inline constexpr int64_t kSizes[] = {61, 197, 1021, 4099, 16411, 65551, 262147};

/// Problems of one kind that differ in size.
struct Family {
  const char* name;
  int64_t most_tokens;  // larger ones are not tried: all scores of a general mask, or a fixed size
  std::string (*spec)(int64_t tokens);  // without dtype
};
const std::vector<Family>& families();
/// Throws where there is none of that name.
const Family& family(const std::string& name);

struct MutantCase {
  const Family* family;
  int64_t tokens;
  std::string dtype, spec;
};
MutantCase make_case(const Family& family, int64_t tokens, const std::string& dtype);

}  // namespace attest::testing
