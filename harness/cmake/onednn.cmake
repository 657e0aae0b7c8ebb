# oneDNN, with which onednn_primitives and onednn_graph are built: the distribution's libdnnl-dev if
# it is new enough, otherwise what scripts/onednn.sh has fetched to build/onednn. Without it, or
# with -DATTEST_WITH_ONEDNN=OFF, ATTEST_ONEDNN is off, and both are left out.
option(ATTEST_WITH_ONEDNN "build onednn_* where oneDNN 3.2 or newer is found" ON)
set(ATTEST_ONEDNN OFF)
if(NOT ATTEST_WITH_ONEDNN)
  message(STATUS "oneDNN: switched off by ATTEST_WITH_ONEDNN, so onednn_* are left out")
else()
  # CONFIG: a dnnl_DIR in the cache that no longer exists is looked for anew.
  find_package(dnnl 3.2 CONFIG QUIET HINTS ${PROJECT_SOURCE_DIR}/build/onednn)
  if(NOT dnnl_FOUND)
    message(STATUS "oneDNN: 3.2 or newer not found, so onednn_* are left out "
      "(scripts/onednn.sh fetches it)")
  elseif(NOT DNNL_CPU_THREADING_RUNTIME STREQUAL "OMP")
    message(STATUS "oneDNN: ${dnnl_DIR} has the threads of ${DNNL_CPU_THREADING_RUNTIME}, not of "
      "OpenMP, so onednn_* are left out")
  else()
    set(ATTEST_ONEDNN ON)
    message(STATUS "oneDNN: ${dnnl_VERSION}, ${dnnl_DIR}")
  endif()
endif()
