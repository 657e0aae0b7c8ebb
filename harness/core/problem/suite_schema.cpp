#include "core/problem/suite_schema.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/problem/spec.hpp"

namespace attest::core {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFrame = R"({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "title": "attest suite",
  "description": "",
  "type": "object",
  "additionalProperties": false,
  "required": ["name", "summary"],
  "anyOf": [{"required": ["cases"]}, {"required": ["scaling"]}],
  "properties": {
    "name": {"$ref": "#/definitions/name"},
    "summary": {"$ref": "#/definitions/text"},
    "budget": {
      "anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "maximum": 3600},
        {"type": "string", "pattern": "^[0-9.]+ ?(ns|us|ms|s|min|h)?$"}
      ],
      "description": "timed runs for each implementation and problem: seconds, or \"50ms\""
    },
    "defaults": {
      "allOf": [
        {"$ref": "#/definitions/case"},
        {"not": {"anyOf": [{"required": ["name"]}, {"required": ["misses"]}]}}
      ],
      "description": "keys that every case has unless it has its own; false removes one"
    },
    "cases": {
      "type": "array", "minItems": 1, "maxItems": 4096,
      "items": {"allOf": [{"$ref": "#/definitions/case"}, {"required": ["name"]}]}
    },
    "scaling": {
      "type": "array", "minItems": 1, "maxItems": 64,
      "items": {"allOf": [{"$ref": "#/definitions/sweep"}, {"required": ["name", "over"]}]},
      "description": "problems at many sizes, for attest scale"
    },
    "misses": {
      "type": "array", "minItems": 1, "maxItems": 64,
      "items": {
        "type": "object", "additionalProperties": false, "required": ["why", "cases"],
        "properties": {
          "why": {"$ref": "#/definitions/text"},
          "cases": {
            "type": "object", "minProperties": 1,
            "additionalProperties": {"$ref": "#/definitions/texts"}
          }
        }
      },
      "description": "reasons that several cases share; for each glob of cases, globs of events"
    }
  },
  "definitions": {
    "name": {"type": "string", "pattern": "^[A-Za-z0-9_.+/-]{1,80}$"},
    "text": {"type": "string", "minLength": 1, "maxLength": 400},
    "texts": {
      "type": "array", "minItems": 1, "uniqueItems": true, "items": {"$ref": "#/definitions/text"}
    },
    "count": {
      "type": "string", "pattern": "^-?[0-9.]+[kKmM]?$",
      "description": "k is 1,024 and m is 1,048,576: 4k is 4096"
    },
    "whole": {
      "anyOf": [
        {"type": "integer", "minimum": -2147483648, "maximum": 2147483648},
        {"$ref": "#/definitions/count"}, {"const": false}
      ]
    },
    "length": {
      "anyOf": [
        {"type": "integer", "minimum": -1, "maximum": 2147483648},
        {"$ref": "#/definitions/count"}, {"enum": ["tokens", false]}
      ]
    },
    "float": {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", false]}]},
    "tensor": {
      "anyOf": [
        {"type": "boolean"},
        {
          "type": "string", "minLength": 1,
          "pattern": "^[a-z0-9]*(\\[[0-9.]+[kKmM]?(,[0-9.]+[kKmM]?)*\\])?$"
        },
        {"type": "array", "minItems": 1, "maxItems": 6, "items": {"type": "integer", "minimum": 1}}
      ]
    },
    "order": {"type": "string", "pattern": "^[0-5]{1,6}$"},
    "strides": {
      "type": "array", "minItems": 1, "maxItems": 6, "items": {"type": "integer", "minimum": 0}
    },
    "over": {"type": "string", "pattern": "^[a-z_]+=[^ ]+$", "maxLength": 400},
    "case": {"type": "object", "additionalProperties": false, "properties": {}},
    "sweep": {"type": "object", "additionalProperties": false, "properties": {}}
  }
})";

// The keys of a case that are no words of a spec line, and the words that set several fields.
constexpr const char* kCaseSchema = R"({
  "operation": {
    "type": "string",
    "description": "softmax, softmax_backward, linear, deformable, or that of a plugin's own"
  },
  "dtypes": {
    "type": "array", "minItems": 1, "uniqueItems": true,
    "items": {"enum": ["f32", "f16", "bf16", "f64"]},
    "description": "each gives one problem; q, k and v may have f8e4m3 or f8e5m2 by themselves"
  },
  "quick": {
    "anyOf": [
      {"type": "boolean"},
      {
        "type": "array", "minItems": 1, "uniqueItems": true,
        "items": {"enum": ["f32", "f16", "bf16", "f64"]}
      }
    ],
    "description": "one of the few cases of run --quick, for two cores; a list: some of its dtypes"
  },
  "misses": {
    "type": "object", "minProperties": 1, "maxProperties": 64,
    "additionalProperties": {"$ref": "#/definitions/text"},
    "description": "globs of events that its inputs do not have, each with the reason"
  },
  "causal": {
    "enum": [true, false, "top_left", "bottom_right"],
    "description": "short for window_right 0; bottom_right also sets diagonal 1"
  },
  "unaligned": {"type": "boolean", "description": "tensors are aligned to their element only"}
})";

// The keys that an entry of `scaling` has beside those of a case.
constexpr const char* kScalingSchema = R"({
  "over": {
    "anyOf": [
      {"$ref": "#/definitions/over"},
      {"type": "array", "minItems": 1, "maxItems": 16, "items": {"$ref": "#/definitions/over"}}
    ],
    "description": "the field that grows and its sizes: seq_len_q=1k..256k"
  },
  "threads": {"type": "string", "description": "numbers of threads: 1..n or 1,2,4"},
  "deadline": {
    "type": "string",
    "description": "50ms: the largest size that runs in this time is looked for"
  },
  "memory": {
    "type": "string",
    "description": "2GiB: the largest size whose tensors and measured memory fit is looked for"
  }
})";

Json reference(const char* definition, const std::string& description) {
  Json one;
  one["allOf"] =
      Json::array({Json::object({{"$ref", fmt::format("#/definitions/{}", definition)}})});
  one["description"] = description;
  return one;
}

Json case_keys() {
  Json keys;
  keys["name"] = reference("name", "model/layer, unique in its suite");
  const Json plain = Json::parse(kCaseSchema);
  for (const auto& [key, value] : plain.items()) keys[key] = value;
  keys["inputs"] =
      reference("text", "random, or a source of tokens: lidar:voxel_size=0.05,curve=z,first=32768");
  keys["source"] = reference("text", "the model's own configuration");
  keys["note"] = reference("text", "what the name does not say");
  keys["fills"] =
      reference("texts", "the only fills on which it is judged: random, codebook ...; or all");
  keys["impls"] = reference("texts", "globs of the only implementations that run it");
  return keys;
}

const char* definition_of(const Field& field) {
  if (field.type == Field::Type::kF32) return "float";
  return std::string_view(field.name).starts_with("seq_len") ? "length" : "whole";
}

// The words of one operation; one that another has too keeps that one's meaning.
void add_words(const Operation& operation, Json& keys) {
  for (const Field& field : operation.fields())
    if (!keys.contains(field.name)) keys[field.name] = reference(definition_of(field), field.help);
  for (const Role& role : operation.roles()) {
    const std::string name = role.name;
    if (keys.contains(name)) continue;
    keys[name] = reference("tensor", fmt::format("{}: true, or its dtype and dims", name));
    keys[name + ".order"] =
        reference("order", fmt::format("numbers of the dims of {}, the outermost first", name));
    keys[name + ".strides"] = reference("strides", fmt::format("of {}, in elements", name));
  }
}

}  // namespace

std::string suite_schema() {
  Json schema = Json::parse(kFrame);
  schema["description"] =
      "A suite of named cases. A case has the keys that every case has, and the words of a spec "
      "line: the parameters and tensors of its operation.";
  Json keys = case_keys();
  for (const Operation* operation : all_operations()) add_words(*operation, keys);
  Json sweep = Json::parse(kScalingSchema);
  for (const auto& [key, value] : keys.items())
    if (key != "inputs" && key != "misses")
      sweep[key]["$ref"] = fmt::format("#/definitions/case/properties/{}", key);
  schema["definitions"]["case"]["properties"] = std::move(keys);
  schema["definitions"]["sweep"]["properties"] = std::move(sweep);
  return schema.dump(1) + "\n";
}

}  // namespace attest::core
