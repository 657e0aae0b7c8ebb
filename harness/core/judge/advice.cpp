#include "core/judge/advice.hpp"

namespace attest::core {
namespace {

using Causes = std::string_view[];

constexpr Causes kTolerance = {
    "A constant is wrong: softmax_scale (1/head_dim for 1/sqrt(head_dim), or applied twice), "
    "the softcap, the sign of ALiBi slopes.",
    "Keys are lost or counted twice: the last tile, a short tail, the tile on the diagonal.",
    "The causal diagonal or a window is off by one, or anchored at the other end.",
    "A query head reads the wrong key head: h % num_kv_heads instead of h / group.",
    "An online softmax does not rescale its sums when the maximum rises.",
    "The kernel computes in less precision than it declares."};
constexpr std::string_view kToleranceNext =
    "Run the repro line of the record, then a smaller problem of the same kind: take masks, heads "
    "and tokens away until it passes. If only the arithmetic is coarser than declared, declare "
    "what the kernel does in attest_support.stage; the gate follows.";

constexpr Causes kOneSided = {
    "Results or probabilities are cut to the storage type (a shift or a mask of bits) where they "
    "should be rounded to nearest.",
    "A stochastic or directed rounding mode is on."};
constexpr Causes kNan = {
    "A row in which every key is hidden divides 0 by 0; its output is 0 and its LSE is -inf.",
    "-inf minus -inf: a maximum starts at -inf and the first tile is hidden.",
    "A half-precision sum or score overflows.",
    "The kernel drops a NaN or an infinity of a visible key, for example by fmax."};
constexpr Causes kUnwritten = {"The grid or loop does not cover the last rows, heads or sequences.",
                               "A branch for empty rows returns before it writes.",
                               "LSE was asked for and is not written."};
constexpr Causes kRange = {
    "Weights do not sum to one: a key is counted twice, or the normaliser misses one.",
    "A row reads values that it may not see."};
constexpr Causes kRepetition = {
    "The kernel accumulates into its output or workspace without clearing it first.",
    "A semaphore or counter in the workspace is expected to be zero.",
    "Threads race, or memory is read that nobody wrote."};
constexpr Causes kChangedTensor = {
    "The plan returns a kept output although the tensor that changed is not compared.",
    "K, V, a mask, a bias or lengths are converted in one run and used in later ones."};
constexpr Causes kPlanReuse = {
    "A cache of compiled kernels, descriptors or tables has too short a key: it leaves out scale, "
    "strides, dtype, the mask, the size of a window, the softcap or another parameter.",
    "A plan keeps its parameters in a global variable."};
constexpr Causes kKeyOrder = {
    "A key is lost, or counted twice, at a position that depends on its tile.",
    "A maximum is taken over some lanes only, or is not updated in some tile."};
constexpr Causes kQueryOrder = {"Rows of one tile share a maximum, a normaliser or a mask.",
                                "Rows are written to another row's place."};
constexpr Causes kBatch = {"The stride or offset of a sequence is wrong from the second one on.",
                           "Sequences share a buffer, or lengths of another sequence are used."};
constexpr Causes kHead = {"The stride or offset of a head is wrong from the second one on.",
                          "A query head reads the wrong key head."};
constexpr Causes kShift = {"exp is taken without subtracting the row's maximum.",
                           "The maximum is clamped, or comes from another row."};
constexpr Causes kRowSum = {"The normaliser does not belong to the weights: a key is in one only.",
                            "Probabilities are rounded and the normaliser is not."};
constexpr Causes kValueScale = {"Values are clamped, or a sum overflows in half precision.",
                                "A constant is added to the output."};
constexpr Causes kHidden = {
    "A mask, a window, padding or a length is not applied to every tile.",
    "Values are multiplied by a weight of 0 instead of being left out: 0 times NaN is NaN.",
    "Keys beyond the end of a sequence or of the tensor are read."};
constexpr Causes kSplitMerge = {"LSE is wrong, or has another base or another sign.",
                                "LSE leaves out the scale, the softcap, the bias or the sink."};
constexpr Causes kEnvironment = {
    "run turns on flush-to-zero or another rounding mode and does not turn it off.",
    "run pins its thread and does not restore the affinity."};
constexpr Causes kLeak = {"run creates what only create should, and does not give it back."};
constexpr Causes kStale = {
    "An output is cached by the address or by some bytes of its inputs.",
    "The work is done in create, or on another thread that is not waited for."};
constexpr Causes kLate = {"run returns before its threads, or its stream, have finished."};
constexpr Causes kZeros = {"The kernel was never launched, or failed without a report.",
                           "The output of another buffer was copied back."};
constexpr Causes kConstant = {"Weights are uniform: the scores are all 0 or all equal.",
                              "One value is written to every element."};

constexpr Causes kRace = {
    "Threads, warps or blocks use shared memory or a buffer without a barrier between them.",
    "Memory is read that nobody wrote, so that a result depends on what was there before."};

constexpr Causes kTable = {"The feature, dtype, head size or operation is not in the table."};
constexpr Causes kKernel = {"The library was not compiled for the architecture of the device."};
constexpr Causes kQuery = {"query decided that it does not take this problem."};
constexpr Causes kArithmetic = {"--min-arithmetic asks for more than the kernel declares."};
constexpr Causes kPlans = {"The library keeps one global state."};
constexpr Causes kVector = {"The file uses an operation or attribute that attest does not judge."};
constexpr Causes kMemory = {"The tensors and the declared workspace are larger than what is free."};
constexpr Causes kTime = {"The case is too large for the implementation's speed seen so far."};
constexpr Causes kFill = {"--fill names a fill that this case does not have."};

constexpr Causes kDeclaration = {
    "attest_support names a stage, a bit or a dtype that the operation does not have.",
    "The struct was not cleared before it was filled."};
constexpr Causes kRuntime = {"create or run returned an error status."};
constexpr Causes kNoMemory = {"create or run returned ATTEST_OUT_OF_MEMORY."};
constexpr Causes kProtocol = {"The plugin wrote to a file descriptor that it did not open."};
constexpr Causes kWorker = {"A library that the plugin needs is gone, or was rebuilt meanwhile."};
constexpr Causes kHarness = {"attest itself is wrong here."};
constexpr Causes kReference = {"The vector's expected output is wrong.",
                               "Its parameters mean something else to attest."};
constexpr Causes kInputs = {"A file of tokens is missing or damaged, or memory ran out."};
constexpr Causes kDamaged = {"A file was cut short, or its shapes and parameters disagree."};

constexpr Causes kSignal = {
    "SIGSEGV: an index runs past a tensor; guard pages lie before and behind every one.",
    "SIGILL: the code was built for another CPU. SIGABRT: an assertion, or a corrupted heap."};
constexpr Causes kStack = {"A large array is a local variable.", "A recursion does not end."};
constexpr Causes kException = {"An exception left create, run or a thread of the plugin."};
constexpr Causes kExit = {"The plugin, or a library of it, called exit or _exit."};
constexpr Causes kOom = {"The plugin allocates scores of all pairs, or leaks in every run."};
constexpr Causes kWritten = {"The kernel scales or masks its inputs in place.",
                             "Two pointers were swapped."};
constexpr Causes kCanary = {"A store runs past the end of a row, an output or the workspace.",
                            "Gaps between rows (strides) are written.",
                            "The declared workspace is too small."};
constexpr Causes kDevice = {"An address is out of bounds, or a launch asked for too much."};
constexpr Causes kHang = {"A loop or a lock does not end.",
                          "The machine is far slower than usual."};

constexpr std::string_view kReproNext =
    "Run the repro line of the record: it gives the same inputs, and judges on them alone.";
constexpr std::string_view kLineNext =
    "Build the plugin with -g -fsanitize=address, and run the repro line of the record.";
constexpr std::string_view kNothingNext =
    "Nothing, if that is meant. The reason in the record says what was missing.";
constexpr std::string_view kReportNext =
    "Please report it, with the repro line of the record and the plugin if you can.";

}  // namespace

Advice advice(ReasonCode code) {
  switch (code) {
    case ReasonCode::kPass: return {};
    case ReasonCode::kFailTolerance: return {kTolerance, kToleranceNext};
    case ReasonCode::kFailOneSided:
      return {kOneSided, "Round to nearest even where values are stored."};
    case ReasonCode::kFailNan: return {kNan, kReproNext};
    case ReasonCode::kFailUnwritten:
      return {kUnwritten, "Write every element, also of rows that see no key."};
    case ReasonCode::kFailRange: return {kRange, kReproNext};
    case ReasonCode::kFailRepetition:
      return {kRepetition,
              "Clear what the kernel adds to, and run it under a race detector: -fsanitize=thread, "
              "or compute-sanitizer --tool racecheck."};
    case ReasonCode::kFailChangedTensor:
      return {kChangedTensor,
              "Prepare every tensor anew in each run, or compare all of them before reuse."};
    case ReasonCode::kFailPlanReuse:
      return {kPlanReuse, "Put everything that the result depends on into the key of the cache."};
    case ReasonCode::kFailKeyPermutation: return {kKeyOrder, kReproNext};
    case ReasonCode::kFailQueryPermutation: return {kQueryOrder, kReproNext};
    case ReasonCode::kFailBatchRepetition: return {kBatch, kReproNext};
    case ReasonCode::kFailHeadRepetition: return {kHead, kReproNext};
    case ReasonCode::kFailCommonShift:
      return {kShift, "Subtract the maximum of the row's visible scores before exp."};
    case ReasonCode::kFailRowSum: return {kRowSum, kReproNext};
    case ReasonCode::kFailValueScale: return {kValueScale, kReproNext};
    case ReasonCode::kFailHiddenValues:
    case ReasonCode::kFailHiddenNan:
      return {kHidden, "Leave hidden keys out of every sum, whatever their values are."};
    case ReasonCode::kFailSplitMerge:
      return {kSplitMerge, "LSE is log(sum(exp(score))), natural, of the final scores."};
    case ReasonCode::kFailEnvironment:
      return {kEnvironment, "Restore what run changes before it returns."};
    case ReasonCode::kFailThreads:
    case ReasonCode::kFailDescriptors:
    case ReasonCode::kFailChildren:
      return {kLeak, "Create it once in create, and end it in destroy."};
    case ReasonCode::kFailStaleOutput:
      return {kStale, "Compute every output from the inputs of the call, before run returns."};
    case ReasonCode::kFailLateOutput:
      return {kLate, "Wait for threads, or put all work on the stream that run was given."};
    case ReasonCode::kSuspectZeros:
      return {kZeros, "Check the status of every launch and copy in run."};
    case ReasonCode::kSuspectConstant: return {kConstant, kReproNext};
    case ReasonCode::kSuspectRace:
      return {kRace,
              "Repair the case that the reason names: attest repro --repeat 100 on it, "
              "-fsanitize=thread, or compute-sanitizer --tool racecheck."};
    case ReasonCode::kUnsupportedTable:
      return {kTable, "Nothing, if that is meant; else add it to the plugin's attest_impl."};
    case ReasonCode::kUnsupportedKernel:
      return {
          kKernel,
          "Compile it for the device too; of an Orin: nvcc -gencode arch=compute_87,code=sm_87. "
          "attest doctor says which kernels each plugin has."};
    case ReasonCode::kUnsupportedQuery: return {kQuery, kNothingNext};
    case ReasonCode::kUnsupportedArithmetic:
      return {kArithmetic, "Ask for less, or judge a kernel that computes more precisely."};
    case ReasonCode::kUnsupportedPlans: return {kPlans, kNothingNext};
    case ReasonCode::kUnsupportedVector: return {kVector, kNothingNext};
    case ReasonCode::kSkippedMemory:
      return {kMemory, "Free memory, take a smaller case, or judge on a larger machine."};
    case ReasonCode::kSkippedTime:
      return {kTime, "Give more time: --case-limit for all runs of a case, --timeout for one."};
    case ReasonCode::kSkippedFill: return {kFill, "The reason lists the fills that the case has."};
    case ReasonCode::kErrorDeclaration:
      return {kDeclaration, "The reason names what is wrong; attest.h lists what there is."};
    case ReasonCode::kErrorRuntime:
      return {kRuntime,
              "The reason has what last_error said. If the kernel cannot take the problem, let "
              "query return ATTEST_UNSUPPORTED."};
    case ReasonCode::kErrorMemory:
      return {kNoMemory, "Declare the workspace in query, so that attest can see whether it fits."};
    case ReasonCode::kErrorProtocol:
      return {kProtocol, "Print to stdout or stderr only, and close no descriptor of others."};
    case ReasonCode::kErrorWorker:
      return {kWorker, "Let the build finish, then run again; ldd names what is missing."};
    case ReasonCode::kErrorToleranceModel:
    case ReasonCode::kErrorGolden: return {kHarness, kReportNext};
    case ReasonCode::kErrorReference:
      return {kReference, "Compare the vector's description with what attest makes of it."};
    case ReasonCode::kErrorInputs:
      return {kInputs, "The reason names the file, or what did not fit."};
    case ReasonCode::kErrorVector:
      return {kDamaged, "The reason names the file and the key; write it again."};
    case ReasonCode::kCrashSignal: return {kSignal, kLineNext};
    case ReasonCode::kCrashStackOverflow:
      return {kStack, "Put large arrays into the workspace that query declares."};
    case ReasonCode::kCrashException:
      return {kException, "Catch it in the plugin, return an error status and set last_error."};
    case ReasonCode::kCrashExit: return {kExit, "Return an error status instead."};
    case ReasonCode::kCrashOom: return {kOom, "Work in tiles, and declare the workspace in query."};
    case ReasonCode::kCrashInputWritten:
      return {kWritten, "Copy what must change into the workspace."};
    case ReasonCode::kCrashCanary: return {kCanary, kLineNext};
    case ReasonCode::kCrashLateWrite:
      return {kLate, "Wait for threads, or put all work on the stream that run was given."};
    case ReasonCode::kCrashDevice:
      return {kDevice, "Run the repro line of the record under compute-sanitizer."};
    case ReasonCode::kTimeoutRun:
      return {kHang,
              "Give more time with --timeout; if it hangs, attach a debugger to the worker."};
  }
  return {};
}

}  // namespace attest::core
