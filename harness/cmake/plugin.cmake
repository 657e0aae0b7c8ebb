# What makes a shared library an attest plugin, inside this project and (installed) outside it.

# attest_plugin_module(<name> SOURCES a.cpp ... [LINK target ...])
# A module that exports attest_plugin_v1 and nothing else, so that two plugins which carry the same
# library never see each other's symbols. ATTEST_PLUGIN_MAP is the linker's version script.
function(attest_plugin_module name)
  cmake_parse_arguments(PLUGIN "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} MODULE ${PLUGIN_SOURCES})
  target_link_libraries(${name} PRIVATE attest::abi ${PLUGIN_LINK})
  set_target_properties(${name} PROPERTIES PREFIX ""
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS ${ATTEST_PLUGIN_MAP})
  target_compile_features(${name} PRIVATE c_std_11 cxx_std_17)
  target_link_options(${name} PRIVATE -Wl,--version-script=${ATTEST_PLUGIN_MAP})
endfunction()
