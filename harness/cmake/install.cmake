# Installs the contract as a CMake package, suites and schemas. Programs and plugins are installed
# where they are defined. The component `abi` is all that an out-of-tree plugin needs; it can be
# installed before anything is built.
include(CMakePackageConfigHelpers)

# The component `libraries` is installed only where it is asked for: what programs and plugins link,
# except the libraries of glibc and g++, which every distribution has. Packages (cpack -G TGZ) and
# bundles (scripts/bundle.sh) carry it. Programs, and the plugins that they load, find it by
# DT_RPATH, since DT_RUNPATH does not reach the libraries of libraries.
set(bundled ${CMAKE_INSTALL_LIBDIR}/attest/bundled)
install(RUNTIME_DEPENDENCY_SET attest_libraries
  PRE_EXCLUDE_REGEXES
    "^(libc|libm|libmvec|libdl|libpthread|librt|libresolv|libstdc..|libgcc_s|ld-linux.*)[.]so"
  LIBRARY DESTINATION ${bundled} COMPONENT libraries EXCLUDE_FROM_ALL)
foreach(program attest attest_worker)
  set_target_properties(${program} PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${bundled};$ORIGIN/../../${bundled}")
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
endforeach()
# Without BUILD_WITH_INSTALL_RPATH, CMake ends the run path of the build tree with a colon, and then
# the loader also looks into the working directory. A cross build has a run path of its own.
if(NOT CMAKE_BUILD_RPATH)
  set_target_properties(attest attest_worker attest_conformance PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON)
endif()

set(ATTEST_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/attest)

install(FILES harness/abi/attest.h harness/abi/attest.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT abi)
set_target_properties(attest_abi PROPERTIES EXPORT_NAME abi)
install(TARGETS attest_abi EXPORT attestTargets COMPONENT abi)
install(EXPORT attestTargets NAMESPACE attest:: DESTINATION ${ATTEST_PACKAGE_DIR} COMPONENT abi)
configure_package_config_file(harness/cmake/attestConfig.cmake.in
  ${PROJECT_BINARY_DIR}/attestConfig.cmake INSTALL_DESTINATION ${ATTEST_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attestConfigVersion.cmake
  COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
install(FILES
  ${PROJECT_BINARY_DIR}/attestConfig.cmake ${PROJECT_BINARY_DIR}/attestConfigVersion.cmake
  harness/cmake/plugin.cmake harness/abi/plugin.map DESTINATION ${ATTEST_PACKAGE_DIR} COMPONENT abi)

install(DIRECTORY suites/ DESTINATION ${CMAKE_INSTALL_DATADIR}/attest/suites
  FILES_MATCHING PATTERN "*.json" PATTERN "*.schema.json" EXCLUDE)
file(GLOB ATTEST_SCHEMAS CONFIGURE_DEPENDS suites/*.schema.json reports/*.schema.json)
install(FILES ${ATTEST_SCHEMAS} DESTINATION ${CMAKE_INSTALL_DATADIR}/attest)

# cpack -G TGZ in a build folder: one archive that runs on this distribution and on newer ones
# without a build.
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_FILE_NAME
    attest-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_STRIP_FILES ON)
  set(CPACK_VERBATIM_VARIABLES ON)
  set(CPACK_INSTALL_CMAKE_PROJECTS
    ${PROJECT_BINARY_DIR} attest ALL / ${PROJECT_BINARY_DIR} attest libraries /)
  include(CPack)
endif()
