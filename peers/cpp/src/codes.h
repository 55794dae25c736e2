// gRPC's status codes by their names, as Go spells them.
#pragma once

#include <array>
#include <string>

inline std::string CodeName(int code) {
  static constexpr std::array names = {
      "OK",        "Canceled",          "Unknown",           "InvalidArgument",    "DeadlineExceeded", "NotFound",
      "AlreadyExists", "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted",          "OutOfRange",
      "Unimplemented", "Internal",         "Unavailable",       "DataLoss",           "Unauthenticated"};
  const auto at = static_cast<size_t>(code);
  return at < names.size() ? names[at] : "Code(" + std::to_string(code) + ")";
}
