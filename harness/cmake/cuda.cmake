# CUDA implementations and the kernels of goldens: whether they are built, and for which
# architectures.
set(ATTEST_CUDA auto CACHE STRING
  "CUDA implementations: on, off, or auto: if there are both nvcc and a device")
option(ATTEST_CUDA_MUTANTS
  "build the CUDA kernels once more with planted bugs, for scripts/device_mutants.sh" OFF)
set(ATTEST_CUDA_ARCHITECTURES "" CACHE STRING
  "e.g. 87-real;90a-real;80-virtual; empty: those of the devices here; with ATTEST_CUDA=on: all \
that nvcc and the kernels know")
string(TOLOWER "${ATTEST_CUDA}" ATTEST_CUDA_WANTED)
if(NOT ATTEST_CUDA_WANTED MATCHES "^(on|off|auto)$")
  message(FATAL_ERROR "ATTEST_CUDA=${ATTEST_CUDA}: on, off or auto")
endif()

# The compute capabilities of the devices here, times 10.
function(attest_find_cuda_devices variable)
  set(found "")
  if(NOT CMAKE_CROSSCOMPILING)
    unset(attest_cuda_devices_exit CACHE)  # otherwise it would not be run again
    unset(attest_cuda_devices_compiled CACHE)
    try_run(attest_cuda_devices_exit attest_cuda_devices_compiled ${PROJECT_BINARY_DIR}/cuda_devices
      ${PROJECT_SOURCE_DIR}/harness/cmake/cuda_devices.cpp LINK_LIBRARIES ${CMAKE_DL_LIBS}
      RUN_OUTPUT_VARIABLE found)
  endif()
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# The architectures for which nvcc compiles, from the capabilities of the devices.
function(attest_cuda_architectures_of capabilities variable)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE known)
  set(architectures "")
  foreach(capability ${capabilities})
    if(capability EQUAL 90 AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.0)
      list(APPEND architectures 90a-real)
    elseif(known MATCHES "sm_${capability}[\n;]")
      list(APPEND architectures ${capability}-real)
    else()
      message(STATUS "CUDA: this nvcc does not know sm_${capability}: the driver compiles the "
        "kernels of sm_80 for it")
      list(APPEND architectures 80-virtual)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES architectures)
  set(${variable} "${architectures}" PARENT_SCOPE)
endfunction()

# All architectures that the kernels are meant for and that this nvcc knows.
function(attest_all_cuda_architectures variable)
  set(architectures 75-real 80-real 86-real 87-real 89-real)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.0)
    list(APPEND architectures 90a-real)
  endif()
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND architectures 100-real 120-real)
  endif()
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.9)
    list(APPEND architectures 121-real)
  endif()
  set(${variable} "${architectures};80-virtual" PARENT_SCOPE)  # the last is for later devices
endfunction()

# Stops with an error that says what is possible, unless nvcc knows all architectures asked for.
function(attest_check_cuda_architectures architectures)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE known)
  string(REGEX REPLACE "\n?sm_" " " readable "${known}")
  string(STRIP "${readable}" readable)
  foreach(architecture ${architectures})
    set(number none)
    if(architecture MATCHES "^([0-9]+)[af]?(-real|-virtual)?$")
      set(number ${CMAKE_MATCH_1})
    endif()
    if(NOT known MATCHES "sm_${number}[\n;]")
      message(FATAL_ERROR "ATTEST_CUDA_ARCHITECTURES=${architecture}: this nvcc knows ${readable}, "
        "and 90a; -real or -virtual may follow")
    elseif(architecture MATCHES "^90(-real)?$")
      message(STATUS "CUDA: 90 has no wgmma nor TMA: flash_cuda uses them where it is 90a")
    endif()
  endforeach()
endfunction()

set(ATTEST_HAS_CUDA OFF)
if(NOT ATTEST_CUDA_WANTED STREQUAL off)
  find_program(ATTEST_NVCC nvcc PATHS /usr/local/cuda/bin)
  set(devices "")
  if(ATTEST_CUDA_WANTED STREQUAL auto)
    attest_find_cuda_devices(devices)
  endif()
  if(ATTEST_CUDA_WANTED STREQUAL auto AND NOT devices)
    message(STATUS "CUDA: no device here, so its implementations are not built "
      "(-DATTEST_CUDA=on builds them all the same)")
  elseif(NOT ATTEST_NVCC)
    if(ATTEST_CUDA_WANTED STREQUAL on)
      message(FATAL_ERROR "ATTEST_CUDA=on, and nvcc is not in PATH nor in /usr/local/cuda/bin")
    endif()
    message(STATUS "CUDA: no nvcc, so its implementations are not built")
  else()
    set(ATTEST_HAS_CUDA ON)
  endif()
endif()

if(ATTEST_HAS_CUDA)
  # To enable the language takes an architecture; every toolkit of interest knows this one.
  set(CMAKE_CUDA_ARCHITECTURES 80)
  set(CMAKE_CUDA_COMPILER ${ATTEST_NVCC})
  enable_language(CUDA)
  set(architectures ${ATTEST_CUDA_ARCHITECTURES})
  if(NOT architectures AND devices)
    attest_cuda_architectures_of("${devices}" architectures)
  elseif(NOT architectures)
    attest_all_cuda_architectures(architectures)
  else()
    attest_check_cuda_architectures("${architectures}")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${architectures})
  list(JOIN architectures " " words)
  message(STATUS "CUDA: implementations for ${words}, nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
endif()

# cuDNN's frontend consists of headers from a Python package (scripts/cuda_packages.sh). Headers of
# this machine serve a cross build too.
if(ATTEST_HAS_CUDA)
  find_package(CUDAToolkit REQUIRED)
  find_path(ATTEST_CUDNN_FRONTEND cudnn_frontend.h
    HINTS ${PROJECT_SOURCE_DIR}/build/cuda-packages/include NO_CMAKE_FIND_ROOT_PATH)
  find_path(ATTEST_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CMAKE_FIND_ROOT_PATH)
  set(ATTEST_HAS_CUDNN OFF)
  if(ATTEST_CUDNN_FRONTEND AND ATTEST_CUDNN_INCLUDE)
    set(ATTEST_HAS_CUDNN ON)
  else()
    if(NOT ATTEST_CUDNN_INCLUDE)
      message(STATUS "CUDA: no cudnn_cuda: no cudnn.h, which comes with cuDNN")
    else()
      message(STATUS
        "CUDA: no cudnn_cuda: no cudnn_frontend.h, which scripts/cuda_packages.sh fetches")
    endif()
  endif()
endif()

# attest_cuda_plugin(<name> SOURCES a.cu ... [LINK target ...] [MUTANT])
# As attest_plugin, if CUDA is built. The plugin contains CUDA's runtime, so it needs only the
# driver. ATTEST_SM90A is defined if sm_90a is among the architectures. A MUTANT lies in the folder
# mutants, where attest finds it only by --plugin.
function(attest_cuda_plugin name)
  if(NOT ATTEST_HAS_CUDA)
    return()
  endif()
  cmake_parse_arguments(PLUGIN "MUTANT" "" "SOURCES;LINK" ${ARGN})
  set(folder plugins)
  if(PLUGIN_MUTANT)
    set(folder mutants)
  endif()
  attest_plugin_module(${name} SOURCES ${PLUGIN_SOURCES} LINK ${PLUGIN_LINK})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/impls)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  if(CMAKE_CUDA_ARCHITECTURES MATCHES 90a)
    target_compile_definitions(${name} PRIVATE ATTEST_SM90A)
  endif()
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)  # a seventh of the size
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
  endif()
  set_target_properties(${name} PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
    CUDA_RUNTIME_LIBRARY Static CUDA_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
  install(TARGETS ${name} RUNTIME_DEPENDENCY_SET attest_libraries
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/attest/${folder})
endfunction()

# attest_cuda_module(<variable> a.cu)
# If CUDA is built: a module of kernels for every architecture, which the driver loads. <variable>
# becomes the file's name.
function(attest_cuda_module variable source)
  if(NOT ATTEST_HAS_CUDA)
    return()
  endif()
  set(code "")
  foreach(architecture ${CMAKE_CUDA_ARCHITECTURES})
    string(REGEX REPLACE "-.*" "" number ${architecture})
    if(NOT architecture MATCHES "-virtual$")
      list(APPEND code -gencode arch=compute_${number},code=sm_${number})
    endif()
    if(NOT architecture MATCHES "-real$")
      list(APPEND code -gencode arch=compute_${number},code=compute_${number})
    endif()
  endforeach()
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
    list(APPEND code --compress-mode=size)
  endif()
  get_filename_component(name ${source} NAME_WE)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
  add_custom_command(OUTPUT ${file} DEPENDS ${source} DEPFILE ${file}.d VERBATIM
    COMMAND ${CMAKE_CUDA_COMPILER} -std=c++17 -O3 -DNDEBUG --expt-relaxed-constexpr
      -I ${PROJECT_SOURCE_DIR}/harness -I ${PROJECT_SOURCE_DIR}/harness/abi
      ${code} -MD -MF ${file}.d -fatbin -o ${file} ${source})
  set(${variable} ${file} PARENT_SCOPE)
endfunction()
