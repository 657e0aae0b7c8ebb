# ONNX's own schema as the distribution has compiled it (libonnx-dev), and the protobuf library.
# Without them, or with -DATTEST_WITH_ONNX=OFF, ATTEST_ONNX is off: then .onnx and .pb files are not
# read, and such vectors are unsupported.
option(ATTEST_WITH_ONNX
  "read .onnx and .pb vectors where libonnx-dev and libprotobuf-dev are found" ON)
include(CheckCXXSourceCompiles)
set(ATTEST_ONNX OFF)
if(ATTEST_WITH_ONNX)
  find_package(Protobuf QUIET)
  find_path(ONNX_INCLUDE_DIR onnx/onnx_pb.h)
  find_library(ONNX_PROTO_LIBRARY onnx_proto)
endif()
if(ATTEST_WITH_ONNX AND Protobuf_FOUND AND ONNX_INCLUDE_DIR AND ONNX_PROTO_LIBRARY)
  add_library(attest_onnx_schema INTERFACE)
  target_include_directories(attest_onnx_schema SYSTEM INTERFACE ${ONNX_INCLUDE_DIR})
  target_compile_definitions(attest_onnx_schema INTERFACE ONNX_ML=1)
  target_link_libraries(attest_onnx_schema INTERFACE ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)
  # The headers and the library may come from releases that do not fit each other.
  set(CMAKE_REQUIRED_INCLUDES ${ONNX_INCLUDE_DIR})
  set(CMAKE_REQUIRED_DEFINITIONS -DONNX_ML=1)
  set(CMAKE_REQUIRED_LIBRARIES ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)
  check_cxx_source_compiles("
    #include <onnx/onnx_pb.h>
    int main() {
      onnx::ModelProto model;
      return model.ParseFromArray(\"\", 0) ? 0 : 1;
    }" ATTEST_ONNX_WORKS)
  foreach(what INCLUDES DEFINITIONS LIBRARIES)
    unset(CMAKE_REQUIRED_${what})
  endforeach()
  set(ATTEST_ONNX ${ATTEST_ONNX_WORKS})
endif()
if(ATTEST_ONNX)
  message(STATUS "onnx: found, .onnx and .pb vectors are read "
    "(${ONNX_PROTO_LIBRARY}, protobuf ${Protobuf_VERSION})")
elseif(NOT ATTEST_WITH_ONNX)
  message(STATUS "onnx: switched off by ATTEST_WITH_ONNX, so .onnx and .pb vectors are not read")
else()
  message(STATUS
    "onnx: libonnx-dev or libprotobuf-dev not found, so .onnx and .pb vectors are not read")
endif()
