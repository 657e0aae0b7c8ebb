// The machine as it is described by files of other machines, and what must never be told.
#include "core/measure/machine/environment.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "core/measure/machine/files.hpp"
#include "core/measure/testing/fake_board.hpp"

namespace attest::core {
namespace {

// Enough of a Jetson Orin NX in 15 W under JetPack 6, an x86 server's clocks left out.
void write_orin(const FakeRoot& root) {
  root.write("proc/cpuinfo",
             "processor\t: 0\nBogoMIPS\t: 62.50\nFeatures\t: fp asimd aes fphp asimdhp cpuid "
             "asimddp\nCPU implementer\t: "
             "0x41\nCPU architecture: 8\nCPU part\t: 0xd42\n");
  root.write("proc/device-tree/model",
             std::string("NVIDIA Jetson Orin NX Engineering Reference Developer Kit\0", 58));
  root.write("etc/nv_tegra_release",
             "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\nsecond line\n");
  root.write("etc/os-release", "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\n");
  root.write(
      "etc/nvpmodel.conf",
      "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=15W >\nCPU_ONLINE CORE_0 1\n");
  root.write("var/lib/nvpmodel/status", "pmode:0002\nfmode:quiet\n");
  for (const char* cpu : {"cpu0", "cpu1"})
    root.write(std::string("sys/devices/system/cpu/") + cpu + "/cpufreq/scaling_governor",
               "schedutil\n");
  root.write("sys/devices/system/cpu/online", "0-3\n");
}

TEST(Environment, ReadsCpusOfSeveralKinds) {
  const auto amd = parse_cpuinfo(
      "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: "
      "AMD EPYC 9R14\nstepping\t: 1\n"
      "flags\t\t: fpu sse4_2 avx2 fma avx512f hypervisor\n\nprocessor\t: 1\nmodel name\t: "
      "another\n");
  EXPECT_EQ(amd.at("vendor"), "AuthenticAMD");
  EXPECT_EQ(amd.at("model"), "AMD EPYC 9R14");
  EXPECT_EQ(amd.at("model_number"), "17");
  EXPECT_EQ(amd.at("features"), "sse4_2 avx2 fma avx512f");
  EXPECT_EQ(amd.at("virtual"), "yes");
  const auto intel = parse_cpuinfo(
      "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 173\nmodel name\t: Intel(R) Xeon(R) "
      "6975P-C\nflags\t\t: avx2 "
      "avx512f avx512_fp16 amx_bf16 amx_tile amx_fp16\n");
  EXPECT_EQ(intel.at("features"), "avx2 avx512f avx512_fp16 amx_tile amx_bf16 amx_fp16");
  EXPECT_EQ(intel.at("virtual"), "no");
  const auto orin = parse_cpuinfo(
      "processor\t: 0\nFeatures\t: fp asimd fphp asimdhp asimddp\nCPU implementer\t: 0x41\nCPU "
      "part\t: 0xd42\n");
  EXPECT_EQ(orin.at("features"), "asimd fphp asimdhp asimddp");
  EXPECT_EQ(orin.at("part"), "0xd42");
  EXPECT_EQ(orin.count("virtual"), 0u);  // Arm's file does not say
  EXPECT_TRUE(parse_cpuinfo("").empty());
}

TEST(Environment, ReadsAnOrin) {
  const FakeRoot root;
  write_orin(root);
  const Environment environment = read_environment(root.path());
  EXPECT_EQ(environment.at("cpu").at("governor"), "schedutil");
  EXPECT_EQ(environment.at("cpu").at("threads"), "4");
  EXPECT_EQ(environment.at("system").at("board"),
            "NVIDIA Jetson Orin NX Engineering Reference Developer Kit");
  EXPECT_EQ(environment.at("system").at("l4t"),
            "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic");
  EXPECT_EQ(environment.at("system").at("os"), "Ubuntu 22.04.5 LTS");
  EXPECT_EQ(environment.at("system").at("power_mode"), "2 (15W)");
}

TEST(Environment, ABoardSaysWhatItIsAndWhatCannotBeRead) {
  const Environment environment = read_environment(FakeBoard("agx64", 6).path());
  EXPECT_EQ(environment.at("board").at("module"), "Jetson AGX Orin 64GB");
  EXPECT_EQ(environment.at("board").at("power_mode"), "2 (MODE_30W)");
  EXPECT_EQ(environment.at("board").at("multiprocessors"), "8");
  EXPECT_EQ(environment.at("board").at("gpu_cap_mhz"), "612");
  EXPECT_EQ(environment.at("board_missing").at("celsius_cv0_thermal"),
            "temp: Resource temporarily unavailable");
  EXPECT_EQ(read_environment().count("board"), 0u) << "this machine is no Jetson";
}

TEST(Environment, CpusThatAreOffDoNotCount) {
  const Facts cpu = read_cpu(FakeBoard("agx64", 6).path());
  EXPECT_EQ(cpu.at("threads"), "8");
  EXPECT_EQ(cpu.at("governor"), "schedutil");
  EXPECT_EQ(cpu.at("min_khz"), "729600");
  EXPECT_EQ(cpu.at("max_khz"), "1728000");
}

TEST(Environment, ReadsAServer) {
  const FakeRoot root;
  const std::string cpus = "sys/devices/system/cpu/";
  for (const int cpu : {0, 1, 2, 3}) {
    const std::string folder = cpus + "cpu" + std::to_string(cpu) + "/";
    root.write(folder + "topology/thread_siblings_list", cpu % 2 ? "1,3" : "0,2");
    root.write(folder + "cpufreq/scaling_governor", cpu == 3 ? "powersave" : "performance");
  }
  root.write(cpus + "intel_pstate/no_turbo", "0\n");
  root.write(cpus + "smt/active", "1\n");
  root.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const Facts cpu = read_cpu(root.path());
  EXPECT_EQ(cpu.at("cores"), "2");
  EXPECT_EQ(cpu.at("governor"), "performance powersave");  // they differ: both are told
  EXPECT_EQ(cpu.at("turbo"), "on");
  EXPECT_EQ(cpu.at("smt"), "on");
  EXPECT_EQ(read_system(root.path()).at("transparent_hugepages"), "madvise");
  root.write(cpus + "intel_pstate/no_turbo", "1\n");
  EXPECT_EQ(read_cpu(root.path()).at("turbo"), "off");
}

TEST(Environment, AbsentFilesAreLeftOut) {
  const FakeRoot root;
  const Environment environment = read_environment(root.path());
  for (const char* key : {"model", "governor", "turbo", "cores"})
    EXPECT_EQ(environment.at("cpu").count(key), 0u) << key;
  for (const char* group : {"cpu", "system", "memory", "state"}) {
    for (const auto& [key, text] : environment.at(group))
      EXPECT_FALSE(text.empty()) << group << "." << key;
  }
}

TEST(Environment, KnowsTheBuild) {
  const Environment environment = read_environment();
  EXPECT_FALSE(environment.at("build").at("compiler").empty());
  EXPECT_FALSE(environment.at("build").at("commit").empty());
  EXPECT_FALSE(environment.at("libraries").at("Highway").empty());
  EXPECT_FALSE(environment.at("cpu").at("allowed").empty());
}

TEST(Environment, TellsNoNames) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  std::vector<std::string> names;  // short ones occur by chance
  for (const char* name :
       {static_cast<const char*>(host), static_cast<const char*>(std::getenv("USER"))})
    if (name && std::string(name).size() > 4) names.push_back(name);
  for (const auto& [group, facts] : read_environment()) {
    for (const auto& [key, text] : facts) {
      for (const std::string& name : names)
        EXPECT_EQ(text.find(name), text.npos) << group << "." << key;
      EXPECT_EQ((" " + text).find(" /"), text.npos)
          << group << "." << key << " holds a path: " << text;
      EXPECT_EQ(text.find("=/"), text.npos) << group << "." << key << " holds a path: " << text;
    }
  }
}

TEST(Files, Values) {
  const std::string text =
      "model name\t: X \nmodel\t\t: 17\nempty :\nNAME=\"quoted text\"\n: nothing\n";
  EXPECT_EQ(value_of(text, "model", ':'), "17");
  EXPECT_EQ(value_of(text, "model name", ':'), "X");
  EXPECT_EQ(value_of(text, "empty", ':'), "");
  EXPECT_EQ(value_of(text, "mode", ':'), "");
  EXPECT_EQ(value_of(text, "NAME", '='), "quoted text");
  EXPECT_EQ(chosen_of("[always] never"), "always");
  EXPECT_EQ(chosen_of("] odd ["), "] odd [");
  EXPECT_EQ(read_text("/"), "");
  EXPECT_FALSE(read_number("/nowhere").has_value());
}

}  // namespace
}  // namespace attest::core
