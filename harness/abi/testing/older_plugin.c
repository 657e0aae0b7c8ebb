/* older_header.so: the C example as built with an older header, which has shorter params and a
 * shorter problem, fewer roles and fewer features. */
#include "attest_older.h" /* its guard keeps attest.h out */

#define attest_plugin_v1 example_table
#include "../example/plugin.c"
#undef attest_plugin_v1

#ifdef ATTEST_WITH_PATCHES
#error "this is not the older header"
#endif

const attest_impl* attest_plugin_v1(size_t index) {
  static attest_impl table;
  table = *example_table(0);
  table.name = "older_header";
  return index == 0 ? &table : NULL;
}
