# The three things this project is made of: rooms of the core, plugins, fuzzers. One call each.

# Flags that every target of ours is built with.
add_library(attest_flags INTERFACE)
target_compile_options(attest_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -fno-math-errno
  $<$<BOOL:${PROJECT_IS_TOP_LEVEL}>:-Werror>)
if(ATTEST_SANITIZE)
  add_compile_options(-fsanitize=${ATTEST_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ATTEST_SANITIZE})
endif()

# attest_room(<name> SOURCES a.cpp ... [TESTS a_test.cpp ...] [LINK target ...])
# A room of harness/core: the static library attest_<name>, and one test program with its tests in ctest.
# LINK names the rooms above it and the libraries it uses; nothing else is visible to it at link time.
function(attest_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;TESTS;LINK" ${ARGN})
  add_library(attest_${name} STATIC ${ROOM_SOURCES})
  add_library(attest::${name} ALIAS attest_${name})
  target_include_directories(attest_${name} PUBLIC ${PROJECT_SOURCE_DIR}/harness)
  target_link_libraries(attest_${name} PUBLIC attest_abi ${ROOM_LINK} PRIVATE $<BUILD_INTERFACE:attest_flags>)
  if(ROOM_TESTS)
    attest_test(${name}_test SOURCES ${ROOM_TESTS} LINK attest_${name})
  endif()
endfunction()

# attest_test(<name> SOURCES a_test.cpp ... [LINK target ...]): a GoogleTest program, each test its own ctest entry.
function(attest_test name)
  if(NOT ATTEST_TESTS)
    return()
  endif()
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/harness)
  target_link_libraries(${name} PRIVATE ${TEST_LINK} GTest::gtest_main GTest::gmock attest_flags)
  target_compile_definitions(${name} PRIVATE ATTEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ATTEST_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300)
endfunction()

# attest_plugin(<name> SOURCES a.cpp ... [LINK target ...] [TEST_ONLY]): one implementation as a shared library that exports
# attest_plugin_v1 and nothing else, in the build tree's plugins/ and installed to lib/attest/plugins. A TEST_ONLY plugin goes
# to tests/plugins and is not installed.
function(attest_plugin name)
  cmake_parse_arguments(PLUGIN "TEST_ONLY" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} MODULE ${PLUGIN_SOURCES})
  target_link_libraries(${name} PRIVATE attest_abi ${PLUGIN_LINK} attest_flags)
  set_target_properties(${name} PROPERTIES PREFIX "" CXX_STANDARD 17 C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${PROJECT_SOURCE_DIR}/harness/abi/plugin.map)
  target_link_options(${name} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/harness/abi/plugin.map)
  if(PLUGIN_TEST_ONLY)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/plugins)
  else()
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)
    install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/attest/plugins)
  endif()
endfunction()

# attest_fuzzer(<name> SOURCE a_fuzz.cpp CORPUS dir [LINK target ...]): a parser under LLVMFuzzerTestOneInput. With clang and
# -DATTEST_FUZZ=ON it is a libFuzzer program; in every build its corpus, and a few thousand seeded mutations of it, is replayed by ctest.
option(ATTEST_FUZZ "build the fuzzers with libFuzzer (needs clang)" OFF)
function(attest_fuzzer name)
  if(NOT ATTEST_TESTS)
    return()
  endif()
  cmake_parse_arguments(FUZZ "" "SOURCE;CORPUS" "LINK" ${ARGN})
  add_executable(${name} ${FUZZ_SOURCE} $<$<NOT:$<BOOL:${ATTEST_FUZZ}>>:${PROJECT_SOURCE_DIR}/harness/testing/replay.cpp>)
  target_link_libraries(${name} PRIVATE ${FUZZ_LINK} attest_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(ATTEST_FUZZ)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_test(NAME ${name} COMMAND ${name} ${CMAKE_CURRENT_SOURCE_DIR}/${FUZZ_CORPUS})
  endif()
endfunction()
