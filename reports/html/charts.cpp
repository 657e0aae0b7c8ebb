#include "reports/html/charts.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace attest::reports::html {
namespace {

using nlohmann::json;

constexpr double kMilliseconds = 1e-6, kMebibytes = 1.0 / (1 << 20), kGiga = 1e-9, kMilli = 1e3;

json column(const char* field, const char* title, const char* from, double factor = 1) {
  return {{"field", field}, {"title", title}, {"from", from}, {"factor", factor}};
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

/// One picture for each dtype and machine, whose records may be compared. Layers that show records
/// get `x` and the implementation's colour, unless they have their own.
json by_panel(json layers, const json& x) {
  for (json& layer : layers) {
    if (layer.contains("data")) continue;
    layer["encoding"].emplace("x", x);
    layer["encoding"].emplace("color", by_impl());
  }
  return {{"data", {{"name", "rows"}}},
          {"resolve", {{"axis", {{"x", "independent"}, {"y", "independent"}}}}},
          {"facet", {{"field", "panel"}, {"type", "nominal"}, {"title", nullptr}}},
          {"spec", {{"layer", std::move(layers)}}}};
}

json mark(const char* type, json properties = json::object()) {
  properties["type"] = type;
  return properties;
}

/// The marks of the records themselves, with what each says of its record.
json points(json y) {
  const json label{{"field", "label"}, {"type", "nominal"}};
  return {
      {"mark", mark("point", {{"filled", true}, {"opacity", 1}, {"size", 60}})},
      {"encoding",
       {{"y", std::move(y)}, {"shape", by_impl()}, {"description", label}, {"tooltip", label}}}};
}

/// A dashed line across a picture where `values` of y are, with a word at each: [{limit, word}].
json limits(const json& y, json values) {
  json at = y;
  at["field"] = "limit";
  const json ink{{"value", "currentColor"}};
  const json line = mark("rule", {{"strokeDash", {4, 3}}, {"aria", false}});
  const json text =
      mark("text", {{"align", "left"}, {"baseline", "top"}, {"dy", 3}, {"aria", false}});
  const json word{{"y", at}, {"x", {{"value", 4}}}, {"text", {{"field", "word"}}}, {"color", ink}};
  return {{"data", {{"values", std::move(values)}}},
          {"layer",
           {{{"mark", line}, {"encoding", {{"y", at}, {"color", ink}}}},
            {{"mark", text}, {"encoding", word}}}}};
}

/// A band and a line for each series over the tokens, and a point for each record.
json curves(const char* y, const char* y_title, const char* low = nullptr,
            const char* high = nullptr) {
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
  layers.push_back(points(at));
  return by_panel(std::move(layers), axis("tokens", "tokens of a sequence", "~s"));
}

json time_chart() {
  return {{"id", "time"},
          {"section", "speed"},
          {"title", "Time by number of tokens"},
          {"about",
           "Medians with their intervals of confidence. The tokens are those of the queries or of "
           "the keys, whichever are more. Lines join problems that differ only in them."},
          {"columns",
           {column("tokens", "tokens", "tokens"),
            column("median", "median, ms", "time.median", kMilliseconds),
            column("low", "from, ms", "time.low", kMilliseconds),
            column("high", "to, ms", "time.high", kMilliseconds)}},
          {"spec", curves("median", "median, ms", "low", "high")}};
}

/// A dashed line at the memory that the machine of a picture had free, with a word on it.
json free_memory() {
  const json at{{"field", "free"}, {"aggregate", "max"}, {"type", "quantitative"}};
  const json ink{{"value", "currentColor"}};
  const json known{{"filter", {{"field", "free"}, {"valid", true}}}};
  return json::array(
      {{{"transform", {known}},
        {"mark", mark("rule", {{"strokeDash", {4, 3}}, {"aria", false}})},
        {"encoding",
         {{"y", at}, {"x", {{"value", 0}}}, {"x2", {{"value", "width"}}}, {"color", ink}}}},
       {{"transform", {known}},
        {"mark", mark("text", {{"align", "left"},
                               {"baseline", "top"},
                               {"dy", 3},
                               {"text", "free when the run began"},
                               {"aria", false}})},
        {"encoding", {{"y", at}, {"x", {{"value", 4}}}, {"color", ink}}}}});
}

json memory_chart() {
  json spec = curves("used", "memory, MiB");
  for (json& layer : free_memory()) spec["spec"]["layer"].push_back(std::move(layer));
  return {{"id", "memory"},
          {"section", "memory"},
          {"title", "Memory by number of tokens"},
          {"about",
           "The most that was measured beyond the tensors. Lines join problems that differ only in "
           "their tokens. What takes none is left out: the axis is logarithmic. The dashed line is "
           "what the host had free when the run began, tensors included."},
          {"columns",
           {column("tokens", "tokens", "tokens"),
            column("used", "memory, MiB", "memory.used", kMebibytes)}},
          {"optional", {column("free", "free, MiB", "memory.free", kMebibytes)}},
          {"spec", std::move(spec)}};
}

/// Periods of the sensors of a vehicle, in milliseconds; as many as have room for their words.
json periods() {
  json all = json::array();
  for (const int hertz : {30, 20, 10})
    all.push_back({{"limit", 1000.0 / hertz},
                   {"word", std::to_string(hertz) + " Hz"},
                   {"high", hertz == 20}});
  return all;
}

/// The share of an implementation's records that meet a period, by the period.
json deadline_chart() {
  const json x = axis("worst", "slowest time seen, ms");
  json at = x;
  at["field"] = "limit";
  const json ink{{"value", "currentColor"}};
  const json share{{"field", "share"},
                   {"type", "quantitative"},
                   {"title", "share of the cases that meet it"},
                   {"scale", {{"domain", {0, 1.05}}, {"nice", false}}},  // marks at 1 are whole
                   {"axis", {{"format", ".0%"}, {"values", {0, 0.2, 0.4, 0.6, 0.8, 1}}}}};
  const json rule{{"mark", mark("rule", {{"strokeDash", {4, 3}}, {"aria", false}})},
                  {"encoding", {{"x", at}, {"color", ink}}}};
  // Words of neighbours stand at different heights: on a narrow screen their lines are close.
  const auto words = [&](bool high) {
    const json own{{"filter", {{"field", "high"}, {"equal", high}}}};
    return json{
        {"transform", json::array({own})},
        {"mark", mark("text", {{"angle", 270},
                               {"align", "left"},
                               {"dx", high ? 48 : 4},
                               {"dy", -6},
                               {"aria", false}})},
        {"encoding",
         {{"x", at}, {"y", {{"value", "height"}}}, {"color", ink}, {"text", {{"field", "word"}}}}}};
  };
  const json step = mark("line", {{"interpolate", "step-after"}, {"aria", false}});
  json layers = json::array(
      {{{"data", {{"values", periods()}}}, {"layer", {rule, words(false), words(true)}}},
       {{"mark", step}, {"encoding", {{"y", share}}}},
       points(share)});
  json spec = by_panel(std::move(layers), x);
  spec["spec"]["transform"] = {{{"window", {{{"op", "cume_dist"}, {"as", "share"}}}},
                                {"sort", {{{"field", "worst"}}}},
                                {"groupby", {"impl", "panel"}}}};
  return {{"id", "deadline"},
          {"section", "speed"},
          {"title", "Deadlines: share of cases by period"},
          {"about",
           "Of an implementation's records that were timed, the share whose slowest time, warm or "
           "cold, is within the period below. Dashed lines are rates of frames. A case that is "
           "wrong or was not timed is not counted."},
          {"passing", true},
          {"columns", {column("worst", "slowest time seen, ms", "time.worst", kMilliseconds)}},
          {"spec", std::move(spec)}};
}

/// Which implementation trades accuracy for time.
json error_chart() {
  const json at = axis("error", "share of the gate");
  json same_case{{"y", at}, {"detail", {{"field", "title"}, {"type", "nominal"}}}};
  same_case["color"] = {{"value", "currentColor"}};
  const json on_front{{"filter", {{"field", "front"}, {"equal", true}}}};
  json layers =
      json::array({limits(at, json::array({{{"limit", 1}, {"word", "gate: passes below"}}})),
                   {{"transform", json::array({on_front})},
                    {"mark", mark("line", {{"opacity", 0.5}, {"strokeWidth", 1}, {"aria", false}})},
                    {"encoding", std::move(same_case)}},
                   points(at)});
  return {{"id", "error"},
          {"section", "accuracy"},
          {"title", "Error against time"},
          {"about",
           "The largest error as a share of its gate, of the records that were timed. Lines "
           "join, for each case, the Pareto front: the implementations that no other is at least "
           "as fast and as accurate as. Further down is more accurate, further left is faster."},
          {"front", {"median", "error"}},
          {"columns",
           {column("median", "median, ms", "time.median", kMilliseconds),
            column("error", "share of the gate", "max_ratio")}},
          {"spec", by_panel(std::move(layers), axis("median", "median, ms"))}};
}

/// How near records come to the limits of their machine.
json roofline_chart() {
  const json rate = axis("rate", "GFLOP/s", "~s");
  json roof = rate;
  roof["field"] = "roof";
  const json ink{{"value", "currentColor"}};
  json layers = json::array(
      {{{"mark", mark("rule", {{"strokeDash", {2, 3}}, {"opacity", 0.6}, {"aria", false}})},
        {"encoding", {{"y", rate}, {"y2", {{"field", "roof"}}}}}},
       {{"mark",
         mark("point", {{"shape", "stroke"}, {"size", 300}, {"strokeWidth", 2}, {"aria", false}})},
        {"encoding", {{"y", std::move(roof)}, {"color", ink}}}},
       points(rate)});
  return {{"id", "roofline"},
          {"section", "speed"},
          {"title", "Roofline: operations a second by operations a byte"},
          {"about",
           "A bar above each record is the most that the limits of the machine allow it: "
           "arithmetic, or reads from a level of memory. Records that need not read all of their "
           "tensors are left out."},
          {"absent",
           "They need the limits of the machine. Records that an older attest wrote lack these, "
           "and so do those of devices whose limits are not known."},
          {"columns",
           {column("intensity", "operations a byte", "roofline.intensity"),
            column("rate", "GFLOP/s", "roofline.rate", kGiga),
            column("roof", "at most, GFLOP/s", "roofline.roof", kGiga)}},
          {"spec", by_panel(std::move(layers), axis("intensity", "operations a byte"))}};
}

json energy_chart() {
  return {
      {"id", "energy"},
      {"section", "energy"},
      {"title", "Energy of a run by its time"},
      {"about",
       "The joules are those of the sensor that saw the most beside idle power, and include idle "
       "power. Further down takes less energy, further left is faster."},
      {"columns",
       {column("median", "median, ms", "time.median", kMilliseconds),
        column("run", "energy of a run, mJ", "energy.run", kMilli)}},
      {"spec", by_panel(json::array({points(axis("run", "energy of a run, mJ"))}),
                        axis("median", "median, ms"))}};
}

}  // namespace

json charts() {
  return json::array({time_chart(), deadline_chart(), roofline_chart(), memory_chart(),
                      error_chart(), energy_chart()});
}

json chart_config() {
  const json ink = "currentColor";  // of the page, light or dark
  return {{"background", "transparent"},
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
          // Of page.css, for light and for dark ground (palette_test.cpp).
          {"range",
           {{"category",
             {"var(--mark-1)", "var(--mark-2)", "var(--mark-3)", "var(--mark-4)", "var(--mark-5)",
              "var(--mark-6)", "var(--mark-7)", "var(--mark-8)"}},
            {"symbol",
             {"circle", "square", "triangle-up", "diamond", "cross", "triangle-down",
              "triangle-right", "triangle-left"}}}}};
}

}  // namespace attest::reports::html
