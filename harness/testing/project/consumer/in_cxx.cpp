// The same from C++: a library of the plugin's own must not leak out of it either.
#include <attest.hpp>

#include <string>

std::string a_function_that_must_stay_inside() { return "inside"; }

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  static attest_impl table{};
  table.struct_size = sizeof table;
  table.operation = ATTEST_LINEAR;
  table.device = ATTEST_CPU;
  static const std::string name = "in_cxx" + a_function_that_must_stay_inside().substr(6);
  table.name = name.c_str();
  table.version = "1";
  table.summary = "takes nothing";
  table.query = [](const attest_problem*, attest_support*) -> attest_status {
    return ATTEST_UNSUPPORTED;
  };
  table.create = [](const attest_problem*, void**) -> attest_status { return ATTEST_OK; };
  table.run = [](void*, void* const*, void*, void*) -> attest_status {
    return ATTEST_RUNTIME_ERROR;
  };
  table.destroy = [](void*) {};
  table.last_error = []() -> const char* { return "not made to run"; };
  return index == 0 ? &table : nullptr;
}
