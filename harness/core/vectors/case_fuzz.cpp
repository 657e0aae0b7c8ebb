// Fuzzer of case.json: descriptions that name the tensors of a file, by parameters or by a spec
// line.
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/inputs/prepared.hpp"
#include "core/inputs/testing/fuzz.hpp"
#include "core/problem/strict_json.hpp"
#include "core/vectors/assembly.hpp"
#include "core/vectors/formats/safetensors.hpp"

namespace {

using namespace attest::core;

/// A folder with t.safetensors: the tensors that descriptions may name, q k v o [1, 1, 2, 2], m [1,
/// 1, 2, 2] bool, i [2] i32.
const std::filesystem::path& folder() {
  static const std::filesystem::path made = [] {
    std::string name = (std::filesystem::temp_directory_path() / "case_fuzz_XXXXXX").string();
    demand(mkdtemp(name.data()), "no temporary folder");
    static float numbers[] = {1, 2, 3, 4};
    static uint8_t truths[] = {1, 0, 1, 1};
    static int32_t lengths[] = {1, 2};
    const int64_t four[] = {1, 1, 2, 2}, two[] = {2};
    std::vector<NamedTensor> tensors;
    for (const char* role : {"q", "k", "v", "o"})
      tensors.push_back({role, {dense_tensor(ATTEST_F32, ATTEST_READ, four), numbers}});
    tensors.push_back({"m", {dense_tensor(ATTEST_BOOL, ATTEST_READ, four), truths}});
    tensors.push_back({"i", {dense_tensor(ATTEST_I32, ATTEST_READ, two), lengths}});
    write_safetensors(std::filesystem::path(name) / "t.safetensors", tensors);
    std::atexit([] { std::filesystem::remove_all(folder()); });
    return std::filesystem::path(name);
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz_with(data, size, [](std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const nlohmann::json description = parse_strict_json(text, "case.json");
    TestVector vector;
    try {
      map_named(description, vector,
                {.kind = VectorPlace::Kind::kJson,
                 .name = "fuzz",
                 .model = "case.json",
                 .data = folder()});
    } catch (const Unsupported&) {
      return;
    }
    demand(vector.problem.has_value(), "a vector without a problem");
    // What implementations would get is whole.
    const PreparedInputs inputs(*vector.problem, vector.given);
    demand(inputs.unchanged(), "inputs that change");
    for (const VectorOutput& output : vector.outputs)
      demand(bool(output.expected), "an output without values");
  });
}
