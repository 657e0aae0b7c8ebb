#include "core/device/cuda/cuda_code.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

namespace attest::core {
namespace {

constexpr uint32_t kContainer = 0xBA55ED50;
constexpr uint16_t kEntryOfPtx = 1, kEntryOfSass = 2;
constexpr uint64_t kThisArchitecture = 0x100000, kItsFamily = 0x200000;  // of an entry's flags
constexpr const char* kSections[] = {".nv_fatbin", "__nv_relfatbin"};

struct ContainerHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t entries_bytes;
};
struct EntryHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t code_bytes;
  uint32_t compressed_bytes, options_offset;
  uint16_t minor, major;
  uint32_t architecture;
  uint32_t name_offset, name_bytes;
  uint64_t flags;
};

// The T that begins there; nothing where the bytes end before it does.
template <class T>
std::optional<T> at(std::span<const std::byte> bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::span<const std::byte> part(std::span<const std::byte> bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return {};
  return bytes.subspan(size_t(offset), size_t(size));
}

void add_entries(std::span<const std::byte> entries, std::set<CudaCode>& codes) {
  for (uint64_t offset = 0; const auto entry = at<EntryHeader>(entries, offset);) {
    if (entry->header_bytes < sizeof(EntryHeader)) return;
    if (entry->kind == kEntryOfPtx || entry->kind == kEntryOfSass)
      codes.insert({.architecture = int(entry->architecture),
                    .ptx = entry->kind == kEntryOfPtx,
                    .variant = entry->flags & kItsFamily          ? 'f'
                               : entry->flags & kThisArchitecture ? 'a'
                                                                  : char(0)});
    const uint64_t bytes = entry->header_bytes + entry->code_bytes;
    if (bytes < entry->code_bytes || bytes > entries.size() - offset) return;
    offset += bytes;
  }
}

void add_containers(std::span<const std::byte> section, std::set<CudaCode>& codes) {
  for (uint64_t offset = 0; const auto header = at<ContainerHeader>(section, offset);) {
    if (header->magic != kContainer) {  // between containers there may be zeros
      offset += sizeof(uint64_t);
      continue;
    }
    const std::span<const std::byte> entries =
        part(section, offset + header->header_bytes, header->entries_bytes);
    if (header->header_bytes < sizeof(ContainerHeader) || entries.empty()) return;
    add_entries(entries, codes);
    offset += header->header_bytes + header->entries_bytes;
  }
}

// Sections of a 64-bit ELF file of this machine's byte order.
template <class Of>
void for_each_section(std::span<const std::byte> file, const Of& of) {
  const auto header = at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr))
    return;
  const auto section = [&](uint64_t index) {
    const uint64_t offset = index * sizeof(Elf64_Shdr);
    return header->e_shoff > file.size() ? std::nullopt
                                         : at<Elf64_Shdr>(file, header->e_shoff + offset);
  };
  const auto names = section(header->e_shstrndx);
  if (!names) return;
  const std::span<const std::byte> texts = part(file, names->sh_offset, names->sh_size);
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto one = section(i);
    if (!one || one->sh_name >= texts.size()) continue;
    const auto* text = reinterpret_cast<const char*>(texts.data()) + one->sh_name;
    of(std::string_view(text, strnlen(text, texts.size() - one->sh_name)),
       part(file, one->sh_offset, one->sh_type == SHT_NOBITS ? 0 : one->sh_size));
  }
}

// Tegra takes SASS of its own architecture, if NVIDIA's word counts.
bool is_tegra(int architecture) {
  return architecture == 72 || architecture == 87 || architecture == 101 || architecture == 110;
}

}  // namespace

std::vector<CudaCode> parse_cuda_code(std::span<const std::byte> file) {
  std::set<CudaCode> codes;
  for_each_section(file, [&](std::string_view name, std::span<const std::byte> bytes) {
    if (std::ranges::find(kSections, name) != std::end(kSections)) add_containers(bytes, codes);
  });
  return {codes.begin(), codes.end()};
}

std::vector<CudaCode> read_cuda_code(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  std::vector<std::byte> bytes(size_t(std::max<std::streamoff>(0, in.tellg())));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(bytes.size()));
  return in ? parse_cuda_code(bytes) : std::vector<CudaCode>();
}

CudaFit fit(const CudaCode& code, int architecture) {
  const bool same = code.architecture == architecture,
             family = code.architecture / 10 == architecture / 10,
             older = code.architecture <= architecture;
  if (same) return CudaFit::kYes;
  if (code.variant == 'a') return CudaFit::kNone;
  if (code.variant == 'f') return family && older ? CudaFit::kYes : CudaFit::kNone;
  if (code.ptx) return older ? CudaFit::kYes : CudaFit::kNone;
  if (!family || !older) return CudaFit::kNone;
  return is_tegra(code.architecture) || is_tegra(architecture) ? CudaFit::kPerhaps : CudaFit::kYes;
}

CudaFit best_fit(const std::vector<CudaCode>& codes, int architecture) {
  CudaFit best = CudaFit::kNone;
  for (const CudaCode& code : codes) best = std::max(best, fit(code, architecture));
  return best;
}

std::string print(const std::vector<CudaCode>& codes) {
  std::vector<std::string> sass, ptx;
  for (const CudaCode& code : codes) {
    const std::string number =
        fmt::format("{}{}", code.architecture, code.variant ? std::string(1, code.variant) : "");
    (code.ptx ? ptx : sass).push_back((code.ptx ? "compute_" : "sm_") + number);
  }
  std::string text = fmt::format("{}", fmt::join(sass, " "));
  if (ptx.empty()) return text;
  return fmt::format("{}{}PTX of {}", text, text.empty() ? "" : ", ", fmt::join(ptx, " "));
}

std::string cuda_code_missing(const std::filesystem::path& library,
                              const std::string& architecture) {
  int number = 0;
  if (architecture.starts_with("sm_"))
    std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), number);
  const std::vector<CudaCode> codes = read_cuda_code(library);
  if (number == 0 || codes.empty() || best_fit(codes, number) != CudaFit::kNone) return {};
  return fmt::format("no kernel for {}: it has {}", architecture, print(codes));
}

}  // namespace attest::core
