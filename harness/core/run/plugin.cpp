#include "core/run/plugin.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/run/wire.hpp"
#include "core/tensor/error.hpp"

extern char** environ;

namespace attest::core {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr double kLoadTimeout_s = 30;
constexpr off_t kFlood = 1 << 20;    // bytes of output that are worth a note
constexpr size_t kMostOutput = 300;  // of what a dying worker said, in a reason

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

uint64_t hash_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  return hash_text(bytes);
}

// Text of a plugin, fit for a terminal and a record: printable, one line, not endless.
std::string tidy(std::string text, size_t most) {
  if (text.size() > most) text.resize(most);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; }, ' ');
  return text;
}

// Duplicates at numbers that no descriptor of a worker has, so that moving them into place overwrites nothing.
Descriptor lifted(int fd) { return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 64)); }

// "SIGSEGV"; real-time signals have numbers alone.
std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

const char* stage_name(const StatusPage& page) {
  return kStageNames[std::clamp(int(page.stage.load()), 0, int(std::size(kStageNames)) - 1)];
}

// The slot whose map, or the guards beside it, holds `address`; null when it lies elsewhere. The worker may have written
// anything there: the count is not trusted.
const MappedSlot* slot_at(const StatusPage& page, uint64_t address) {
  const int32_t count = std::clamp<int32_t>(page.slot_count, 0, int32_t(std::size(page.slots)));
  for (const MappedSlot& slot : std::span(page.slots, size_t(count)))
    if (address >= slot.map_begin - uint64_t(kGuardBytes) && address < slot.map_end + uint64_t(kGuardBytes)) return &slot;
  return nullptr;
}

// libgomp's threads spin at barriers for milliseconds by default; where something else runs on the machine, each barrier then
// costs a scheduler's slice. Some tens of microseconds keep barriers quick on an idle machine and bearable on a busy one. A
// user's own choice stands.
void bound_spinning() {
  if (!std::getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "20000", 0);
}

struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnSetup() { posix_spawn_file_actions_init(&actions), posix_spawnattr_init(&attributes); }
  ~SpawnSetup() { posix_spawn_file_actions_destroy(&actions), posix_spawnattr_destroy(&attributes); }
};

}  // namespace

std::string print_dtypes(uint64_t bits) {
  std::string text;
  for (DType dtype = ATTEST_F32; dtype <= ATTEST_F8E5M2; ++dtype)
    if (bits & ATTEST_BIT(dtype)) text += (text.empty() ? "" : ",") + std::string(dtype_name(dtype));
  return text;
}

std::string refuses(const Implementation& implementation, const Problem& problem) {
  if (implementation.operation != problem.operation->number())
    return fmt::format("is not an implementation of {}", problem.operation->name());
  uint64_t dtypes = 0;
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (present(spec) && role.dtype == ATTEST_NONE && is_float(spec.dtype)) dtypes |= ATTEST_BIT(spec.dtype);
  }
  if (const uint64_t missing = dtypes & ~implementation.dtypes)
    return fmt::format("does not take {} (takes {})", print_dtypes(missing),
                       implementation.dtypes ? print_dtypes(implementation.dtypes) : "none");
  if (const uint64_t missing = problem.features & ~implementation.features)
    return fmt::format("does not list {}", print_features(missing));
  return {};
}

fs::path find_worker() {
  if (const char* given = std::getenv("ATTEST_WORKER")) return given;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& candidate :
       {folder / "attest-worker", folder / "../bin/attest-worker", folder / "../" ATTEST_LIBEXECDIR "/attest/attest-worker"})
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  throw Error("attest-worker is not beside this program nor in its prefix's libexec/attest; set ATTEST_WORKER to it");
}

Plugin::Plugin(const fs::path& path, const WorkerOptions& options)
    : path_(fs::absolute(path)), file_name_(path.filename()), options_(options) {
  if (!fs::is_regular_file(path)) throw Error(fmt::format("{}: no such plugin file", path.string()));
  start();
}

Plugin::~Plugin() {
  stop();
  if (status_) munmap(status_, sizeof(StatusPage));
}

void Plugin::start() {
  if (!status_) {
    status_file_ = Descriptor(memfd_create("attest-status", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!status_file_ || ftruncate(status_file_.get(), sizeof(StatusPage)) != 0) throw Error("cannot create the status page");
    fcntl(status_file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    void* page = mmap(nullptr, sizeof(StatusPage), PROT_READ | PROT_WRITE, MAP_SHARED, status_file_.get(), 0);
    if (page == MAP_FAILED) throw Error("cannot map the status page");
    status_ = static_cast<StatusPage*>(page);
  }
  bound_spinning();
  status_->stage = Stage::kStart, status_->fault_address = 0, status_->slot_count = 0;
  auto [ours, theirs] = socket_pair();
  output_ = Descriptor(memfd_create("attest-output", MFD_CLOEXEC));
  const Descriptor socket = lifted(theirs.get()), page = lifted(status_file_.get()), output = lifted(output_.get());

  SpawnSetup setup;
  posix_spawn_file_actions_addopen(&setup.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&setup.actions, output.get(), 1);
  posix_spawn_file_actions_adddup2(&setup.actions, output.get(), 2);
  posix_spawn_file_actions_adddup2(&setup.actions, socket.get(), kWorkerSocket);
  posix_spawn_file_actions_adddup2(&setup.actions, page.get(), kWorkerStatus);
  // Its own process group: Ctrl-C reaches the harness alone, and what the plugin starts can be ended with it.
  sigset_t none, all;
  sigemptyset(&none), sigfillset(&all);
  posix_spawnattr_setflags(&setup.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&setup.attributes, &none), posix_spawnattr_setsigdefault(&setup.attributes, &all);
  const std::string executable = options_.executable, path = path_;
  const char* arguments[] = {"attest-worker", path.c_str(), options_.cpus.c_str(), nullptr};
  const int error =
      posix_spawn(&pid_, executable.c_str(), &setup.actions, &setup.attributes, const_cast<char**>(arguments), environ);
  if (error != 0) {
    pid_ = -1;
    throw Error(fmt::format("cannot start {}: {}", executable, std::strerror(error)));
  }
  channel_.emplace(std::move(ours));
}

void Plugin::stop() {
  channel_.reset();
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

const std::vector<Implementation>& Plugin::implementations() {
  if (!implementations_.empty()) return implementations_;
  json reply;
  std::vector<Descriptor> descriptors;
  const Channel::Status status = channel_->receive(reply, descriptors, in_seconds(kLoadTimeout_s));
  if (status == Channel::Status::kTimeout) throw Error(fmt::format("{}: did not load within {} s", file_name_, kLoadTimeout_s));
  if (status != Channel::Status::kMessage) throw Error(fmt::format("{}: {}", file_name_, death(nullptr).reason));
  if (reply.contains(word::kError)) throw Error(reply[word::kError].get<std::string>());
  changed_modes_at_load_ = reply.value("flushes_subnormals", false);
  const uint64_t hash = hash_file(path_);
  for (const json& table : reply.at(word::kTables)) {
    implementations_.push_back({.name = tidy(table.at("name"), 64),
                                .version = tidy(table.at("version"), 64),
                                .summary = tidy(table.at("summary"), 200),
                                .plugin = file_name_,
                                .binary_hash = hash,
                                .table = implementations_.size(),
                                .operation = table.at("operation"),
                                .device = table.at("device"),
                                .dtypes = table.at("dtypes"),
                                .features = table.at("features")});
  }
  return implementations_;
}

json Plugin::request(const char* what, const Implementation& implementation, const Problem& problem) const {
  const WireProblem wire(problem, options_.threads);
  return {{word::kDo, what},
          {word::kTable, implementation.table},
          {word::kProblem, json::binary(to_bytes(std::span<const WireProblem>(&wire, 1)))}};
}

std::vector<std::string> Plugin::habits() {
  std::vector<std::string> notes;
  if (changed_modes_at_load_) notes.push_back("the library changes floating-point modes when it is loaded; they were restored");
  const off_t size = lseek(output_.get(), 0, SEEK_END);
  if (size > kFlood) {
    notes.push_back(fmt::format("it wrote {} bytes of output", size));
    if (ftruncate(output_.get(), 0) != 0) notes.push_back("which could not be cut");
  }
  return notes;
}

std::string Plugin::said() const {
  std::string text(kMostOutput, '\0');
  const off_t size = lseek(output_.get(), 0, SEEK_END);
  const ssize_t n = pread(output_.get(), text.data(), text.size(), std::max<off_t>(0, size - off_t(kMostOutput)));
  text.resize(size_t(std::max<ssize_t>(n, 0)));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return tidy(text, kMostOutput);
}

// Where the worker faulted, in words of the problem; `code` becomes crash:input-written where it wrote into an input.
std::string Plugin::fault_place(const Problem* problem, std::string& code) const {
  const uint64_t address = status_->fault_address;
  if (address == 0 || !problem) return {};
  const MappedSlot* slot = slot_at(*status_, address);
  if (!slot) return " at an address outside of every tensor";
  const Role* role = slot->role == kWorkspaceRole ? nullptr : find_role(*problem->operation, slot->role);
  const std::string name = role ? role->name : "workspace";
  if (address < slot->data_begin) return fmt::format(" at {} bytes before the start of {}", slot->data_begin - address, name);
  if (address >= slot->data_end) return fmt::format(" at {} bytes past the end of {}", address - slot->data_end, name);
  if (role && !is_output(*role)) code = "crash:input-written";
  return fmt::format(" at byte {} of {}", address - slot->data_begin, name);
}

// Reaps a worker that is gone and says how it went. The next call starts another one.
Failure Plugin::death(const Problem* problem) {
  int how = 0;
  pid_t gone = 0;
  // It may have closed its socket and live on; then it is ended here.
  for (const auto patience = in_seconds(0.5); (gone = waitpid(pid_, &how, WNOHANG)) == 0 && Clock::now() < patience;)
    usleep(1000);
  const char* doing = stage_name(*status_);
  Failure failure{Verdict::kCrash, "crash:exit", {}};
  if (gone != pid_) {
    failure.reason = fmt::format("closed its connection {}", doing);
  } else if (WIFSIGNALED(how)) {
    failure.code = "crash:signal";
    const std::string where = fault_place(problem, failure.code);
    failure.reason = fmt::format("{} {}{}", signal_name(WTERMSIG(how)), doing, where);
  } else {
    failure.reason = fmt::format("exited with {} {}", WEXITSTATUS(how), doing);
  }
  if (const std::string words = said(); !words.empty()) failure.reason += fmt::format("; it said: {}", words);
  if (gone == pid_) {
    kill(-pid_, SIGKILL);  // what it left behind
    pid_ = -1;
  }
  stop();
  return failure;
}

// Sends one request and waits. What comes back is not trusted: `read` may throw on anything malformed.
template <class Read>
std::optional<Failure> Plugin::call(const json& request, const Problem& problem, std::span<const int> descriptors,
                                    double timeout_s, const Read& read) {
  implementations();  // the first message is the worker's list of tables
  json reply;
  std::vector<Descriptor> unused;
  if (pid_ < 0) {
    start();
    if (channel_->receive(reply, unused, in_seconds(kLoadTimeout_s)) != Channel::Status::kMessage) return death(nullptr);
  }
  channel_->send(request, descriptors);  // a worker that is gone shows in the answer
  switch (channel_->receive(reply, unused, in_seconds(timeout_s))) {
    case Channel::Status::kTimeout: {
      const char* doing = stage_name(*status_);
      stop();
      return Failure{Verdict::kTimeout, "timeout:run", fmt::format("was {} for more than {:g} s", doing, timeout_s)};
    }
    case Channel::Status::kClosed: return death(&problem);
    case Channel::Status::kMessage:
      try {
        read(reply);
        return std::nullopt;
      } catch (const json::exception&) {
      }
      [[fallthrough]];
    case Channel::Status::kGarbage: break;
  }
  stop();
  return Failure{Verdict::kError, "error:protocol",
                 "the worker's answer is malformed; did the plugin write into its connection?"};
}

QueryResult Plugin::query(const Implementation& implementation, const Problem& problem) {
  QueryResult result;
  result.failure = call(request("query", implementation, problem), problem, {}, options_.timeout_s, [&](const json& reply) {
    const auto support = from_bytes<attest_support>(reply.at(word::kSupport).get_binary());
    if (!support.empty()) result.support = support[0];
    result.status = reply.at(word::kStatus);
    result.message = tidy(
        result.status == ATTEST_UNSUPPORTED ? std::string(result.support.reason) : reply.at(word::kMessage).get<std::string>(),
        300);
  });
  return result;
}

// The reply's own failure: a step that returned a status, or a changed floating-point mode.
std::optional<Failure> Plugin::reported_failure(const json& reply) {
  const attest_status status = reply.at(word::kStatus);
  if (status != ATTEST_OK) {
    const char* meaning = status == ATTEST_UNSUPPORTED       ? "unsupported"
                          : status == ATTEST_INVALID_PROBLEM ? "invalid problem"
                          : status == ATTEST_OUT_OF_MEMORY   ? "out of memory"
                                                             : "runtime error";
    const std::string stage = reply.value("stage", "worker"), words = tidy(reply.value(word::kMessage, ""), 300);
    return Failure{Verdict::kError, status == ATTEST_OUT_OF_MEMORY ? "error:memory" : "error:runtime",
                   fmt::format("{} gave {} ({}){}{}", stage, status, meaning, words.empty() ? "" : ": ", words)};
  }
  if (reply.value("float_mode_changed", false))
    return Failure{Verdict::kFail, "fail:environment", "run changed the floating-point mode of its thread"};
  return std::nullopt;
}

namespace {

json with_tensors(json request, const SharedTensors& inputs, const SharedTensors& outputs) {
  request[word::kInputs] = json::binary(to_bytes(inputs.slots()));
  request[word::kOutputs] = json::binary(to_bytes(outputs.slots()));
  return request;
}

}  // namespace

RunResult Plugin::run(const Implementation& implementation, const Problem& problem, const SharedTensors& inputs,
                      const SharedTensors& outputs) {
  RunResult result;
  std::optional<Failure> reported;
  const int descriptors[] = {inputs.descriptor(), outputs.descriptor()};
  const json asked = with_tensors(request("run", implementation, problem), inputs, outputs);
  result.failure = call(asked, problem, descriptors, options_.timeout_s, [&](const json& reply) {
    if ((reported = reported_failure(reply))) return;
    result.create_ns = reply.at("create_ns"), result.run_ns = reply.at("run_ns");
    if (reply.contains("peak_bytes")) result.peak_bytes = reply["peak_bytes"].get<uint64_t>();
  });
  if (!result.failure) result.failure = reported;
  return result;
}

TimeResult Plugin::time(const Implementation& implementation, const Problem& problem, const SharedTensors& inputs,
                        const SharedTensors& outputs, double expected_ns, double budget_ns) {
  TimeResult result;
  std::optional<Failure> reported;
  const int descriptors[] = {inputs.descriptor(), outputs.descriptor()};
  json asked = with_tensors(request("time", implementation, problem), inputs, outputs);
  asked["expected_ns"] = expected_ns, asked["budget_ns"] = budget_ns;
  const double timeout_s = options_.timeout_s + 10e-9 * budget_ns;  // several runs, each within its own limit
  result.failure = call(asked, problem, descriptors, timeout_s, [&](const json& reply) {
    if ((reported = reported_failure(reply))) return;
    result.samples_ns = reply.at("samples_ns").get<std::vector<double>>();
    result.cold_samples_ns = reply.at("cold_samples_ns").get<std::vector<double>>();
    result.iterations_per_sample = reply.at("iterations_per_sample"), result.warmup_ns = reply.at("warmup_ns"),
    result.create_ns = reply.at("create_ns");
  });
  if (!result.failure) result.failure = reported;
  return result;
}

}  // namespace attest::core
