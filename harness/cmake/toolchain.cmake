# Compiler, cache and linker: refuses a compiler that is too old, and uses what speeds up a rebuild
# where it is found.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
  message(FATAL_ERROR
    "g++ ${CMAKE_CXX_COMPILER_VERSION} is too old: attest needs C++20 as g++ 11 has it")
endif()

# x86-64 processors have SSE4.2: Intel's since 2008, AMD's since 2011, Atoms since 2013. With it
# as the least, the kernels that are compiled once for each instruction set (Highway) have one set
# less, which is a fifth of their time. Without the definition, Highway would count SSE4 as the
# least only if instructions for AES were enabled, too.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-msse4.2>)
  add_compile_definitions(HWY_DISABLE_PCLMUL_AES)
endif()

# g++ frees memory whenever its heap has doubled, which takes a tenth of its time. Without that a
# compilation takes up to a third more memory; the largest unit of release takes 1.5 GiB. So there
# must be twice as much of it for each CPU.
cmake_host_system_information(RESULT cpus QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR mib_of_a_cpu "${memory_mib} / ${cpus}")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND mib_of_a_cpu GREATER 3072)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=1048576>")
endif()

# Paths below this tree are cached as relative ones, so that another build folder beside build/test,
# or another clone, finds what was compiled there.
find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
foreach(language C CXX)
  if(CCACHE_PROGRAM AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE_PROGRAM})
  endif()
endforeach()

if(ATTEST_LINKER)
  add_link_options(-fuse-ld=${ATTEST_LINKER})
endif()
# Tests of a sanitizer build run beside the plain ones in one ctest run. A prefix of their names
# tells them apart.
if(ATTEST_SANITIZE)
  string(REGEX REPLACE "[^a-z].*" "." ATTEST_TEST_PREFIX "${ATTEST_SANITIZE}.")
endif()
# g++ 12's thread sanitizer finds no address range for its shadow memory if the kernel randomises
# more than 28 bits of an address, so its programs run without randomisation.
if(ATTEST_SANITIZE MATCHES thread)
  find_program(SETARCH_PROGRAM setarch)
  mark_as_advanced(SETARCH_PROGRAM)
  execute_process(COMMAND ${SETARCH_PROGRAM} ${CMAKE_HOST_SYSTEM_PROCESSOR} -R true
    RESULT_VARIABLE cannot OUTPUT_QUIET ERROR_QUIET)
  if(SETARCH_PROGRAM AND NOT cannot)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${SETARCH_PROGRAM} ${CMAKE_HOST_SYSTEM_PROCESSOR} -R)
  endif()
endif()
