# Toolchain of the preset aarch64: a cross build for 64-bit Arm with what scripts/aarch64.sh sets
# up. -march is that of a Jetson Orin's Cortex-A78AE. The compiler is g++ 11 where it is there, the
# oldest that a supported JetPack has.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
find_program(ATTEST_AARCH64_GCC_11 aarch64-linux-gnu-g++-11)
mark_as_advanced(ATTEST_AARCH64_GCC_11)
if(ATTEST_AARCH64_GCC_11)
  set(ATTEST_AARCH64_GCC -11 CACHE STRING "behind the compilers' names")
else()
  set(ATTEST_AARCH64_GCC "" CACHE STRING "behind the compilers' names")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ATTEST_AARCH64_GCC)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc${ATTEST_AARCH64_GCC})
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++${ATTEST_AARCH64_GCC})
set(CMAKE_C_FLAGS_INIT -march=armv8.2-a+fp16+dotprod)
set(CMAKE_CXX_FLAGS_INIT -march=armv8.2-a+fp16+dotprod)

get_filename_component(ATTEST_ARM64 ${CMAKE_CURRENT_LIST_DIR}/../../build/arm64 ABSOLUTE)
# CMake cuts flags of nvcc, and what pkg-config says of this folder, at blanks.
if(ATTEST_ARM64 MATCHES " ")
  message(FATAL_ERROR "a cross build needs a path without blanks: ${ATTEST_ARM64}")
endif()
if(NOT EXISTS ${ATTEST_ARM64}/fetched)
  message(FATAL_ERROR "${ATTEST_ARM64} is not there: scripts/aarch64.sh sets it up")
endif()
# Packages from that folder alone; programs of this machine.
set(CMAKE_FIND_ROOT_PATH ${ATTEST_ARM64})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${ATTEST_ARM64})
set(ENV{PKG_CONFIG_LIBDIR}
  ${ATTEST_ARM64}/usr/lib/aarch64-linux-gnu/pkgconfig:${ATTEST_ARM64}/usr/share/pkgconfig)
# Not the compiler's own, which no program would find there when it runs.
set(OpenMP_gomp_LIBRARY ${ATTEST_ARM64}/usr/lib/aarch64-linux-gnu/libgomp.so.1 CACHE FILEPATH "")
# cmake --install looks there for libraries to pack; zlib's is not below usr.
set(CMAKE_BUILD_RPATH ${ATTEST_ARM64}/lib/aarch64-linux-gnu)
# Libraries that libraries of packages need.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT
    -Wl,-rpath-link,${ATTEST_ARM64}/usr/lib/aarch64-linux-gnu)
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR ${ATTEST_ARM64}/run)

# For ATTEST_CUDA=on: this machine's nvcc and headers, and the libraries that
# scripts/cuda_packages.sh --arm64 fetches.
set(cuda ${CMAKE_CURRENT_LIST_DIR}/../../build/cuda-packages-arm64)
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
set(CMAKE_CUDA_FLAGS "-target-dir ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux -L${cuda}" CACHE STRING "")
foreach(variable CUDA_CUDART CUDA_cudart_static_LIBRARY)
  set(${variable} ${cuda}/libcudart_static.a CACHE FILEPATH "")
endforeach()
