// Keeps the golden of each set of inputs. A golden is computed at its first use, by the host or a
// device. If the host does not confirm the device's golden, the host computes it again. The store
// also keeps the expectations of small outputs (RememberingGolden).
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
  /// Computes the golden on the device, or on the host if the argument is null.
  using Make = std::function<std::unique_ptr<Golden>(const GoldenDevice*)>;

  /// `device` may be null. It must outlive this object.
  KeptGolden(Make make, const GoldenDevice* device) : make_(std::move(make)), device_(device) {}

  /// Returns use(golden). If `use` or the computation of the golden throws GoldenRefused, the host
  /// computes the golden, and `use` is called again. Later calls use the host's golden.
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

  /// Why the host's golden replaced the device's; "": it did not.
  const std::string& remark() const { return remark_; }
  /// How long the computation took, including a device's golden that was refused, but without the
  /// work in `expect`; 0 before the first use.
  double seconds() const { return seconds_; }

 private:
  const Golden& made();
  void replace(const GoldenRefused& why);

  Make make_;
  const GoldenDevice* device_;  // null: the host computes the golden
  std::unique_ptr<Golden> golden_;
  std::string remark_;
  double seconds_ = 0;
};

/// The goldens of several PreparedInputs, by their addresses.
class GoldenStore {
 public:
  /// `device` may compute the goldens. It may be null, and must outlive this object.
  explicit GoldenStore(const GoldenDevice* device) : device_(device) {}
  /// The golden of these inputs; it is not computed yet. The inputs must outlive this object and
  /// must not change.
  KeptGolden& of(const PreparedInputs& inputs);

 private:
  const GoldenDevice* device_;
  std::map<const PreparedInputs*, KeptGolden> kept_;
};

}  // namespace attest::core
