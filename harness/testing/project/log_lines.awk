# Which lines of ctest's LastTest.log scripts/test.sh shows: what a test took of all sources
# (slice.sh), and each test that was skipped with a sanitizer, where ctest names its test suite
# alone.
$2 == "Test:" && $1 ~ /^[0-9]+\/[0-9]+$/ { entry = $3 }
/^[a-z_]*: slice/
entry ~ /^(address|thread)\./ && /^\[  SKIPPED \] .* ms\)$/ { print entry ": skipped " $4 }
