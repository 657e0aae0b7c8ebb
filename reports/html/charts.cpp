#include "reports/html/charts.hpp"

#include <nlohmann/json.hpp>

namespace attest::reports::html {
namespace {

using nlohmann::json;

json column(const char* field, const char* title, const char* from, double factor = 1) {
  return {{"field", field}, {"title", title}, {"from", from}, {"factor", factor}};
}

/// One picture for each dtype and machine, whose records may be compared.
json by_panel(json layers, json encoding) {
  return {{"data", {{"name", "rows"}}},
          {"resolve", {{"axis", {{"x", "independent"}, {"y", "independent"}}}}},
          {"facet", {{"field", "panel"}, {"type", "nominal"}, {"title", nullptr}}},
          {"spec", {{"encoding", std::move(encoding)}, {"layer", std::move(layers)}}}};
}

/// A logarithmic axis. `format` is d3's: "~s" writes 20k, "~g" 0.02.
json axis(const char* field, const char* title, const char* format = "~g") {
  return {{"field", field},
          {"type", "quantitative"},
          {"title", title},
          {"scale", {{"type", "log"}, {"nice", false}, {"padding", 12}}},
          {"axis", {{"format", format}, {"labelOverlap", true}, {"tickCount", 5}}}};
}

/// Colour and form of a mark both tell the implementation.
json by_impl() { return {{"field", "impl"}, {"type", "nominal"}, {"title", nullptr}}; }

json mark(const char* type, json properties = json::object()) {
  properties["type"] = type;
  return properties;
}

/// A band and a line for each series over `x`, and a point for each record.
json curves(const char* x, const char* x_title, const char* y, const char* y_title,
            const char* low = nullptr, const char* high = nullptr) {
  const json series{{"field", "series"}, {"type", "nominal"}};
  const json at = axis(y, y_title);
  json layers = json::array();
  if (low) {
    json from = axis(low, y_title);
    const json band{{"y", from}, {"y2", {{"field", high}}}};
    json area = band;
    area["detail"] = series;
    layers.push_back({{"mark", mark("area", {{"opacity", 0.25}, {"aria", false}})},
                      {"encoding", std::move(area)}});
    layers.push_back({{"mark", mark("rule", {{"aria", false}})}, {"encoding", band}});
  }
  layers.push_back(
      {{"mark", mark("line", {{"aria", false}})}, {"encoding", {{"y", at}, {"detail", series}}}});
  json point{{"y", at}, {"shape", by_impl()}};
  point["description"] = {{"field", "label"}, {"type", "nominal"}};
  point["tooltip"] = point["description"];
  layers.push_back({{"mark", mark("point", {{"filled", true}, {"opacity", 1}, {"size", 60}})},
                    {"encoding", std::move(point)}});
  return by_panel(std::move(layers), {{"x", axis(x, x_title, "~s")}, {"color", by_impl()}});
}

json time_chart() {
  return {
      {"id", "time"},
      {"section", "speed"},
      {"title", "Time by number of tokens"},
      {"about",
       "Medians with their intervals of confidence. The tokens are those of the queries or of "
       "the keys, whichever are more. Lines join problems that differ only in them."},
      {"columns",
       {column("tokens", "tokens", "tokens"), column("median", "median, ms", "time.median", 1e-6),
        column("low", "from, ms", "time.low", 1e-6), column("high", "to, ms", "time.high", 1e-6)}},
      {"spec", curves("tokens", "tokens of a sequence", "median", "median, ms", "low", "high")}};
}

}  // namespace

json charts() { return json::array({time_chart()}); }

json chart_config() {
  const json ink = "currentColor";  // of the page, light or dark
  return {
      {"background", "transparent"},
      {"font", "system-ui, sans-serif"},
      {"view", {{"stroke", ink}, {"strokeOpacity", 0.3}}},
      {"axis",
       {{"labelColor", ink},
        {"titleColor", ink},
        {"domainColor", ink},
        {"tickColor", ink},
        {"gridColor", ink},
        {"gridOpacity", 0.12},
        {"labelFontSize", 12},
        {"titleFontSize", 12},
        {"titleFontWeight", "normal"}}},
      {"header", {{"labelColor", ink}, {"labelFontSize", 13}, {"labelFontWeight", "bold"}}},
      {"legend",
       {{"labelColor", ink},
        {"titleColor", ink},
        {"labelFontSize", 12},
        {"symbolSize", 90},
        {"symbolOpacity", 1},
        {"orient", "bottom"},
        {"labelLimit", 240}}},
      // At least 3 to 1 against the light and the dark ground; after Okabe and Ito, for readers who
      // do not tell red from green.
      {"range",
       {{"category",
         {"#0072b2", "#d55e00", "#008f68", "#b85c94", "#9a7400", "#2f8fc4", "#7d6bc4", "#7a7a7a"}},
        {"symbol",
         {"circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right",
          "triangle-left"}}}}};
}

}  // namespace attest::reports::html
