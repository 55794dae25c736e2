// JSON, as far as specs and events need it.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <cstdint>
#include <string>
#include <vector>

// An object that was read. What is absent in it is empty, zero or false.
class JsonObject {
 public:
  // Throws a Refusal that says what is wrong with the text.
  explicit JsonObject(const std::string& text);

  JsonObject Object(const std::string& name) const;
  const std::string& Text(const std::string& name) const;
  int64_t Number(const std::string& name) const;
  bool Flag(const std::string& name) const;
  std::vector<JsonObject> Objects(const std::string& name) const;

 private:
  explicit JsonObject(google::protobuf::Struct fields) : fields_(std::move(fields)) {}
  const google::protobuf::Value& Field(const std::string& name) const;

  google::protobuf::Struct fields_;
};

// The text as JSON, in quotes. What is no UTF-8 in it becomes "?".
std::string Quoted(const std::string& text);
