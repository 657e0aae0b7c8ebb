# Makes two more headers from attest.h: the contract as an older harness could have had it, and as a
# newer one could. If a line of attest.h is no longer found, the configuration stops: change this
# file to match.
function(attest_edit_header variable pattern replacement)
  string(REGEX REPLACE "${pattern}" "${replacement}" edited "${${variable}}")
  if(edited STREQUAL ${variable})
    message(FATAL_ERROR "harness/abi/testing/headers.cmake: nothing in attest.h matches ${pattern}")
  endif()
  set(${variable} "${edited}" PARENT_SCOPE)
endfunction()

# CMake treats brackets and semicolons specially, so other characters stand for them while it edits.
file(READ ${PROJECT_SOURCE_DIR}/harness/abi/attest.h text)
string(REPLACE ";" "@S@" text "${text}")
string(REPLACE "[" "@L@" text "${text}")
string(REPLACE "]" "@R@" text "${text}")

# Older: without orders, patches and grids; a problem does not know its threads.
set(older "${text}")
attest_edit_header(older "  ATTEST_ORDER,.*\n  (ATTEST_OWN = 32)" "  \\1")
attest_edit_header(older "  ATTEST_WITH_ORDER = .* ATTEST_WITH_SINKS[^\n]*\n" "")
attest_edit_header(older "  int64_t patch_size@S@.*\n(} attest_softmax_params@S@)" "\\1")
attest_edit_header(older "  int32_t device_id@S@.*\n(} attest_problem@S@)" "\\1")

# Newer: with scales of keys (a feature, a role, a parameter), a longer support, a longer table.
set(newer "${text}")
attest_edit_header(newer "ATTEST_MINOR = 0" "ATTEST_MINOR = 1")
attest_edit_header(newer "(  ATTEST_OWN = 32)" "  ATTEST_KEY_SCALES,\n\\1")
attest_edit_header(newer "(ATTEST_WITH_SINKS = 1 << 20)" "\\1,\n  ATTEST_WITH_KEY_SCALES = 1 << 21")
attest_edit_header(newer "(} attest_softmax_params@S@)" "  int64_t num_scales@S@\n\\1")
attest_edit_header(newer "(} attest_problem@S@)" "  int64_t deadline_ns@S@\n\\1")
attest_edit_header(newer "(} attest_support@S@)" "  double energy_joules@L@64@R@@S@\n\\1")
attest_edit_header(newer "(} attest_impl@S@)" "  attest_status (*tune)(void* plan)@S@\n\\1")

foreach(version older newer)
  string(REPLACE "@S@" ";" ${version} "${${version}}")
  string(REPLACE "@L@" "[" ${version} "${${version}}")
  string(REPLACE "@R@" "]" ${version} "${${version}}")
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/attest_${version}.h CONTENT "${${version}}")
endforeach()
set_property(DIRECTORY APPEND PROPERTY
  CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/harness/abi/attest.h)
