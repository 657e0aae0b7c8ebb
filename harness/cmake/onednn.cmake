# oneDNN, with which onednn_primitives is built: the distribution's libdnnl-dev if it is new enough,
# otherwise what scripts/onednn.sh has fetched to build/onednn. Without it, or with
# -DATTEST_WITH_ONEDNN=OFF, ATTEST_ONEDNN is off, and the implementation is left out.
option(ATTEST_WITH_ONEDNN "build onednn_primitives where oneDNN 3.2 or newer is found" ON)
set(ATTEST_ONEDNN OFF)
if(NOT ATTEST_WITH_ONEDNN)
  message(STATUS "oneDNN: switched off by ATTEST_WITH_ONEDNN, so onednn_primitives is left out")
else()
  # CONFIG: a dnnl_DIR in the cache that no longer exists is looked for anew.
  find_package(dnnl 3.2 CONFIG QUIET HINTS ${PROJECT_SOURCE_DIR}/build/onednn)
  if(NOT dnnl_FOUND)
    message(STATUS "oneDNN: 3.2 or newer not found, so onednn_primitives is left out "
      "(scripts/onednn.sh fetches it)")
  elseif(NOT DNNL_CPU_THREADING_RUNTIME STREQUAL "OMP")
    message(STATUS "oneDNN: ${dnnl_DIR} has the threads of ${DNNL_CPU_THREADING_RUNTIME}, not of "
      "OpenMP, so onednn_primitives is left out")
  else()
    set(ATTEST_ONEDNN ON)
    message(STATUS "oneDNN: ${dnnl_VERSION}, ${dnnl_DIR}")
  endif()
endif()
