# What a build tree needs of the source tree to be used elsewhere: its suites, and the contract for
# plugins. Where the source tree is still there, its suites come first.
file(GLOB suites RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/suites/*.json)
foreach(file ${suites})
  configure_file(${PROJECT_SOURCE_DIR}/${file} ${PROJECT_BINARY_DIR}/${file} COPYONLY)
endforeach()
foreach(header attest.h attest.hpp)
  configure_file(${PROJECT_SOURCE_DIR}/harness/abi/${header}
    ${PROJECT_BINARY_DIR}/include/${header} COPYONLY)
endforeach()
