#include "core/record/token_picture.hpp"

#include "core/tensor/walk.hpp"

namespace attest::core {

// As tensor/walk.hpp says. Names in JSON are those of reports/results.schema.json.
template <class Visit>
void walk(TokenPicture& p, Visit&& visit) {
  visit("inputs", p.inputs);
  visit("tokens", p.tokens);
  visit("cell_metres", p.cell_metres);
  visit("cells", p.cells);
}

nlohmann::json to_json(const TokenPicture& picture) {
  nlohmann::json line = write_json(picture);
  line["type"] = "tokens";
  return line;
}

TokenPicture token_picture_from_json(const nlohmann::json& line) {
  return read_json<TokenPicture>(line);
}

}  // namespace attest::core
