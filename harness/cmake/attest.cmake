# The things that this project is made of: folders of the core, plugins, tests, fuzzers. One call
# each.
include(${CMAKE_CURRENT_LIST_DIR}/plugin.cmake)
set(ATTEST_PLUGIN_MAP ${PROJECT_SOURCE_DIR}/harness/abi/plugin.map)

# Flags that every target of this project is built with.
add_library(attest_flags INTERFACE)
target_compile_options(attest_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
  -fno-math-errno
  # Not with clang, which warns of other things: every change is built with g++ first.
  $<$<AND:$<BOOL:${PROJECT_IS_TOP_LEVEL}>,$<CXX_COMPILER_ID:GNU>>:-Werror>
  # g++ 12 warns of overlapping copies inside std::string concatenation (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # clang warns of std::stable_sort of libstdc++ 12, which calls a deprecated function, and of loops
  # that it did not vectorise.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations -Wno-pass-failed>)
if(ATTEST_SANITIZE)
  # Without -fsanitize=null: it takes a tenth of the compiler's time, and whatever is read or
  # written through a null pointer dies anyway.
  add_compile_options(-fsanitize=${ATTEST_SANITIZE} -fno-sanitize=null -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ATTEST_SANITIZE})
  # Once a sanitizer has rewritten the standard library, g++ sees uninitialised values in it
  # (<regex>, std::function).
  target_compile_options(attest_flags INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
if(ATTEST_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR
      "ATTEST_FUZZ needs clang: -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# attest_tests builds every test of this configuration with what it needs, and nothing else.
# attest_test_plugins builds every plugin that only tests load. The default target leaves out
# programs all of whose tests are long, and plugins that no other program depends on.
add_custom_target(attest_tests)
add_custom_target(attest_test_plugins)

# attest_test_labels(<out> [label ...])
# Joins the folder and the given labels to one word, e.g. core.problem.threads: ctest -L takes a
# regular expression, and gtest_discover_tests loses lists. The word is empty if ATTEST_TEST_LABELS
# leaves the test out of this build.
function(attest_test_labels out)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "^harness/" "" folder "${folder}")
  string(REPLACE "/" ";" labels "${folder}")
  list(APPEND labels ${ARGN})
  set(wanted ${labels})
  if(ATTEST_TEST_LABELS)
    list(REMOVE_ITEM wanted ${ATTEST_TEST_LABELS})
  endif()
  if(ATTEST_TEST_LABELS AND wanted STREQUAL labels)
    set(labels "")
  endif()
  string(REPLACE ";" "." labels "${labels}")
  set(${out} "${labels}" PARENT_SCOPE)
endfunction()

# attest_core_folder(<name> SOURCES a.cpp ... [LINK target ...]
#                    [TESTS a_test.cpp ... [TEST_LINK target ...] [DEPENDS target ...]
#                    [LABELS label ...] [LONG Suite.Test ...] [PLAIN Suite.Test ...] [TEXT]])
# One folder of harness/core: the static library attest_<name>, and one test program, <name>_test,
# as attest_test makes it, which says what DEPENDS, LABELS, LONG, PLAIN and TEXT mean. LINK names
# the folders above it and the libraries that it uses; nothing else is visible to it at link time.
function(attest_core_folder name)
  cmake_parse_arguments(FOLDER "TEXT" "" "SOURCES;TESTS;LINK;TEST_LINK;DEPENDS;LABELS;LONG;PLAIN"
    ${ARGN})
  add_library(attest_${name} STATIC ${FOLDER_SOURCES})
  add_library(attest::${name} ALIAS attest_${name})
  target_include_directories(attest_${name} PUBLIC ${PROJECT_SOURCE_DIR}/harness)
  target_link_libraries(attest_${name} PUBLIC attest_abi ${FOLDER_LINK}
    PRIVATE $<BUILD_INTERFACE:attest_flags>)
  if(FOLDER_TESTS)
    set(text "")
    if(FOLDER_TEXT)
      set(text TEXT)
    endif()
    attest_test(${name}_test SOURCES ${FOLDER_TESTS} LINK attest_${name} ${FOLDER_TEST_LINK}
      DEPENDS ${FOLDER_DEPENDS} LABELS ${FOLDER_LABELS} LONG ${FOLDER_LONG} PLAIN ${FOLDER_PLAIN}
      ${text})
  endif()
endfunction()

# attest_compile_briefly(<target> ...)
# Targets that read and write text, without a loop over elements. They are compiled by -O1, which
# takes two thirds of the time of -O3. With sanitizers, whose checks the optimiser spends most of
# its time on, they are compiled by -O0, which takes a third of the time of -O1. Their unity builds
# have twice as many sources at once, since headers take most of the time.
function(attest_compile_briefly)
  foreach(target ${ARGN})
    if(ATTEST_SANITIZE)
      target_compile_options(${target} PRIVATE -O0)
    elseif(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
      target_compile_options(${target} PRIVATE -O1)
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 24)
  endforeach()
endfunction()

# Seconds that a test may take. Sanitizers are several times slower, and machines differ.
set(ATTEST_TEST_TIMEOUT 600)
if(ATTEST_SANITIZE)
  set(ATTEST_TEST_TIMEOUT 1800)
endif()

# What a test that computes needs: scripts/test.sh gives ctest two CPUs in all. A ctest that is
# called without a resource specification heeds only its --parallel.
set(ATTEST_ONE_CPU RESOURCE_GROUPS cpus:1)

# attest_test(<name> SOURCES a_test.cpp ... [LINK target ...] [DEPENDS target ...]
#             [LABELS label ...] [LONG Suite.Test ...] [LONG_DEPENDS target ...]
#             [PLAIN Suite.Test ...] [ALONE] [WAITS] [TEXT])
# A GoogleTest program, in which each test is a ctest entry of its own. With a sanitizer a program
# takes 20 ms to start, so there each test suite is one entry, <name>.Suite; long tests keep their
# own.
#   DEPENDS: what it runs or loads.
#   LONG_DEPENDS: what only its long tests or scripts beside them run or load. attest_tests builds
#     it, and the default target does not.
#   LABELS: labels beside those of its folder; `threads` puts it under the thread sanitizer too.
#   LONG: globs of its tests that only `scripts/test.sh --all` runs (label `long`). They run first,
#     so that none of them runs alone at the end. If all are (*), the default target leaves out the
#     program.
#   PLAIN: globs of its tests that no sanitizer runs: they are about numbers or times and take long
#     there. Other tests, which sanitizers do run, access memory in the same ways.
#   ALONE: its tests measure time, so nothing runs beside them.
#   WAITS: its tests wait more than they compute, so scripts/test.sh runs them beside two others.
#   TEXT: its tests handle text or start programs. They are compiled without optimisation, in two
#     thirds of the time. That slows down inline functions of the core in this program, too.
# Threads of OpenMP sleep while they wait: two tests at once have more threads than most machines
# have cores, and spinning threads would double their time.
function(attest_test name)
  cmake_parse_arguments(TEST "ALONE;TEXT;WAITS" ""
    "SOURCES;LINK;DEPENDS;LABELS;LONG;LONG_DEPENDS;PLAIN" ${ARGN})
  attest_test_labels(labels ${TEST_LABELS})
  if(NOT ATTEST_TESTS OR NOT labels)
    return()
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/harness)
  attest_compile_briefly(${name})
  if(TEST_TEXT)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  target_link_libraries(${name} PRIVATE ${TEST_LINK} attest_highway_load GTest::gtest_main
    GTest::gmock attest_flags)
  target_compile_definitions(${name} PRIVATE
    ATTEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ATTEST_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(attest_tests ${name} ${TEST_LONG_DEPENDS})
  if(TEST_DEPENDS)
    add_dependencies(${name} ${TEST_DEPENDS})
  endif()
  if(NOT ATTEST_SANITIZE)
    set(TEST_PLAIN "")
  endif()
  list(JOIN TEST_LONG ":" long)
  set(left_out ${TEST_LONG} ${TEST_PLAIN})
  list(JOIN left_out ":" left_out)
  list(JOIN TEST_PLAIN ":" plain)
  set(cpu ${ATTEST_ONE_CPU})
  if(TEST_WAITS)
    set(cpu "")
  endif()
  set(properties TIMEOUT ${ATTEST_TEST_TIMEOUT} RUN_SERIAL ${TEST_ALONE}
    ENVIRONMENT OMP_WAIT_POLICY=passive ${cpu})
  if(TEST_LONG)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${ATTEST_TEST_PREFIX}"
      TEST_FILTER "${long}-${plain}" TEST_LIST ${name}_long_tests
      PROPERTIES LABELS ${labels}.long ${properties} COST 50)
  endif()
  if("*" IN_LIST TEST_LONG)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    # ctest has one entry for a program that is not built. That is a long test, too.
    set(entry ${CMAKE_CURRENT_BINARY_DIR}/${name}_not_built.cmake)
    file(WRITE ${entry} "if(NOT EXISTS \"${PROJECT_BINARY_DIR}/tests/${name}\")\n"
      "  set_tests_properties(${name}_NOT_BUILT PROPERTIES LABELS ${labels}.long)\nendif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${entry})
  elseif(ATTEST_SANITIZE)
    set(entries ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
    configure_file(${PROJECT_SOURCE_DIR}/harness/cmake/test_suites.cmake.in ${entries} @ONLY)
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${entries})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${ATTEST_TEST_PREFIX}"
      TEST_FILTER "-${left_out}" PROPERTIES LABELS ${labels} ${properties})
  endif()
endfunction()

# attest_plugin(<name> SOURCES a.cpp ... [LINK target ...] [TEST_ONLY] [NOT_INSTALLED])
# One implementation as a shared library that exports attest_plugin_v1 and nothing else. It lies in
# the build tree's plugins/ and is installed to lib/attest/plugins. A TEST_ONLY plugin lies in
# tests/plugins, is not installed, and is built for those who depend on it. A NOT_INSTALLED plugin
# links a library that is too large for a package.
function(attest_plugin name)
  cmake_parse_arguments(PLUGIN "TEST_ONLY;NOT_INSTALLED" "" "SOURCES;LINK" ${ARGN})
  attest_plugin_module(${name} SOURCES ${PLUGIN_SOURCES} LINK ${PLUGIN_LINK} attest_flags)
  set_target_properties(${name} PROPERTIES CXX_STANDARD 17)
  if(PLUGIN_TEST_ONLY)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/plugins)
    add_dependencies(attest_test_plugins ${name})
  else()
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)
    if(NOT PLUGIN_NOT_INSTALLED)
      install(TARGETS ${name} RUNTIME_DEPENDENCY_SET attest_libraries
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/attest/plugins)
    endif()
  endif()
endfunction()

# attest_operation(<name> SOURCES a.cpp ...)
# An operation outside this tree, in a folder of ATTEST_OPERATIONS. It is linked into the program
# and the front ends; its sources register it.
function(attest_operation name)
  cmake_parse_arguments(OPERATION "" "" "SOURCES" ${ARGN})
  add_library(attest_operation_${name} OBJECT ${OPERATION_SOURCES})
  target_link_libraries(attest_operation_${name} PRIVATE attest_operations attest_flags)
  foreach(program attest attest_conformance)
    target_link_libraries(${program} PRIVATE attest_operation_${name})
  endforeach()
endfunction()

# attest_fuzzer(<name> SOURCE a_fuzz.cpp CORPUS dir [LINK target ...])
# A parser under LLVMFuzzerTestOneInput. With clang and -DATTEST_FUZZ=ON it is a libFuzzer program.
# In any other build ctest replays its corpus, and 3,000 seeded mutations of each file. With a
# sanitizer a mutation takes twenty times as long, so ctest replays the first 1,000 of them there.
function(attest_fuzzer name)
  cmake_parse_arguments(FUZZ "" "SOURCE;CORPUS" "LINK" ${ARGN})
  attest_test_labels(labels fuzz)
  if(NOT ATTEST_TESTS OR NOT labels)
    return()
  endif()
  add_executable(${name} ${FUZZ_SOURCE}
    $<$<NOT:$<BOOL:${ATTEST_FUZZ}>>:${PROJECT_SOURCE_DIR}/harness/testing/replay.cpp>)
  set(mutations 3000)
  if(ATTEST_SANITIZE AND NOT ATTEST_FUZZ)
    set(mutations 1000)
    target_compile_options(${name} PRIVATE -O0)  # as attest_test does
  endif()
  target_compile_definitions(${name} PRIVATE ATTEST_MUTATIONS=${mutations})
  target_link_libraries(${name} PRIVATE ${FUZZ_LINK} attest_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(attest_tests ${name})
  if(ATTEST_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_test(NAME ${ATTEST_TEST_PREFIX}${name}
      COMMAND ${name} ${CMAKE_CURRENT_SOURCE_DIR}/${FUZZ_CORPUS})
    set_tests_properties(${ATTEST_TEST_PREFIX}${name} PROPERTIES
      TIMEOUT ${ATTEST_TEST_TIMEOUT} LABELS ${labels} ${ATTEST_ONE_CPU})
  endif()
endfunction()

# attest_script_test(<name> [LONG] [WAITS] COMMAND ...)
# A check of the sources or of an installation. It runs once, not again under each sanitizer. LONG,
# WAITS: as in attest_test.
function(attest_script_test name)
  cmake_parse_arguments(TEST "LONG;WAITS" "" "COMMAND" ${ARGN})
  set(cpu ${ATTEST_ONE_CPU})
  if(TEST_WAITS)
    set(cpu "")
  endif()
  set(labels project)
  set(cost 0)
  if(TEST_LONG)
    set(labels project.long)
    set(cost 50)
  endif()
  if(ATTEST_TESTS AND NOT ATTEST_TEST_LABELS)
    add_test(NAME ${name} COMMAND ${TEST_COMMAND})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ATTEST_TEST_TIMEOUT} LABELS ${labels}
      COST ${cost} ENVIRONMENT OMP_WAIT_POLICY=passive ${cpu})
  endif()
endfunction()
