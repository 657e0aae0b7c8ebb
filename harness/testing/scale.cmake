# The operation scale, and an implementation of it. To build them into attest, configure it with
# -DATTEST_OPERATIONS=<this folder>.
attest_operation(scale SOURCES scale_operation.cpp)
attest_plugin(scale_cpu SOURCES scale_cpu.c)
