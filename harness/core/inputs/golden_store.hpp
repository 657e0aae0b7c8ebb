// Goldens of inputs: each made at its first use, by a device where that is worth while, and by the
// host where the device is not believed.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include "core/inputs/prepared.hpp"
#include "core/operations/golden.hpp"
#include "core/operations/golden_device.hpp"

namespace attest::core {

/// The golden of one problem and one set of inputs.
class KeptGolden {
 public:
  /// Makes it with the device, or on the host where that is null.
  using Make = std::function<std::unique_ptr<Golden>(const GoldenDevice*)>;

  /// `device` may be null; it must outlive this.
  KeptGolden(Make make, const GoldenDevice* device) : make_(std::move(make)), device_(device) {}

  /// The result of `use(golden)`. Where that or making the golden throws GoldenRefused, the golden
  /// is the host's from now on, and `use` is called again.
  template <class Use>
  std::invoke_result_t<Use, const Golden&> use(const Use& use) {
    try {
      return use(made());
    } catch (const GoldenRefused& refused) {
      if (!device_) throw;
      replace(refused);
    }
    return use(made());
  }

  /// Why the device's golden was replaced by the host's; "": it was not.
  const std::string& remark() const { return remark_; }
  /// How long making it took, a device's that was refused included; 0 before.
  double seconds() const { return seconds_; }

 private:
  const Golden& made();
  void replace(const GoldenRefused& why);

  Make make_;
  const GoldenDevice* device_;  // null: the host makes it
  std::unique_ptr<Golden> golden_;
  std::string remark_;
  double seconds_ = 0;
};

/// The golden of each PreparedInputs, by its address. All are asked of one device.
class GoldenStore {
 public:
  /// `device` may be null; it must outlive this.
  explicit GoldenStore(const GoldenDevice* device) : device_(device) {}
  /// Nothing is made yet. The inputs must outlive this, and stay as they are.
  KeptGolden& of(const PreparedInputs& inputs);

 private:
  const GoldenDevice* device_;
  std::map<const PreparedInputs*, KeptGolden> kept_;
};

}  // namespace attest::core
