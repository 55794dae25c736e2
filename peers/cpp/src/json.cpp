#include "json.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstdio>

#include "spec.h"

namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// How many bytes the UTF-8 character has that begins the text; 0: none begins there.
size_t CharacterBytes(const char* text, size_t size) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t bytes = first < 0x80 ? 1 : first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (first >= 0xf5 || bytes > size) return 0;
  for (size_t i = 1; i < bytes; i++)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return bytes;
}

}  // namespace

JsonObject::JsonObject(const std::string& text) {
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, &fields_);
  if (!parsed.ok()) throw Refusal("worker spec: " + parsed.ToString());
}

const Value& JsonObject::Field(const std::string& name) const {
  static const Value none;
  const auto found = fields_.fields().find(name);
  return found == fields_.fields().end() ? none : found->second;
}

JsonObject JsonObject::Object(const std::string& name) const { return JsonObject(Field(name).struct_value()); }

const std::string& JsonObject::Text(const std::string& name) const { return Field(name).string_value(); }

bool JsonObject::Flag(const std::string& name) const { return Field(name).bool_value(); }

std::vector<JsonObject> JsonObject::Objects(const std::string& name) const {
  std::vector<JsonObject> all;
  for (const auto& value : Field(name).list_value().values()) all.push_back(JsonObject(value.struct_value()));
  return all;
}

// Numbers of protobuf's JSON are doubles, exact up to 2^53, which are 104 days of nanoseconds. Seeds
// are larger, and passed on as they are.
int64_t JsonObject::Number(const std::string& name) const {
  const double value = Field(name).number_value();
  return std::abs(value) < 9e18 ? static_cast<int64_t>(value) : 0;
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = CharacterBytes(&text[i], text.size() - i);
    const char c = text[i];
    if (bytes == 0) {
      out += '?';
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (bytes == 1 && c < 0x20) {
      char escaped[7];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out.append(text, i, bytes);
    }
    i += std::max<size_t>(bytes, 1);
  }
  return out + '"';
}
