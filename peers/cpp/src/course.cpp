#include "course.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "clock.h"

namespace {

// The number of calls of a caller that have memory before the first, if that many are asked for.
constexpr int64_t kExpectedAtMost = 1 << 16;

}  // namespace

Caller::Caller(Course& course, uint32_t number, int64_t requests)
    : course_(course),
      number_(number),
      requests_(requests),
      journal_(static_cast<size_t>(std::min(requests, kExpectedAtMost))) {}

bool Caller::Goes(int64_t now) {
  if (requests_ == 0 && !behind_ && now >= course_.end_ns_) {
    behind_ = true;
    course_.ahead_.fetch_sub(1);
  }
  const bool wanted = requests_ > 0 ? measured() < requests_ : course_.ahead_.load(std::memory_order_relaxed) > 0;
  if (wanted && !course_.stopped()) return true;
  if (course_.active_.fetch_sub(1) == 1) course_.finish_.Set();
  return false;
}

void Caller::Ended(int64_t sent, int64_t ended, uint32_t failure) {
  journal_.Add({sent, sent, ended, number_, failure});
  last_ns_ = ended;
  if (sent >= course_.begin_ns_) measured_.store(measured() + 1, std::memory_order_relaxed);
}

Course::Course(const ClientSpec& spec) : spec_(spec), ahead_(spec.clients), active_(spec.clients) {
  for (int i = 0; i < spec.clients; i++) {
    const int64_t requests = spec.requests > 0 ? spec.requests + (i < spec.extra_requests ? 1 : 0) : 0;
    callers_.push_back(std::make_unique<Caller>(*this, static_cast<uint32_t>(i), requests));
  }
}

void Course::Open() {
  begin_ns_ = Now() + spec_.warm_up_ns;
  if (timed()) end_ns_ = begin_ns_ + spec_.duration_ns;
}

int64_t Course::end_ns() const {
  int64_t end = end_ns_;
  if (!timed())
    for (const auto& caller : callers_) end = std::max(end, caller->last_ns());
  return end;
}

uint64_t Course::done() const {
  uint64_t sum = 0;
  for (const auto& caller : callers_) sum += caller->journal().size();
  return sum;
}

uint64_t Course::measured() const {
  uint64_t sum = 0;
  for (const auto& caller : callers_) sum += static_cast<uint64_t>(caller->measured());
  return sum;
}

void Course::Write(const std::string& path) const {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "wb"), close);
  if (!file) throw Refusal("make the calls file " + path + ": " + std::strerror(errno));
  for (const auto& caller : callers_) caller->journal().Write(file.get());
  if (std::fclose(file.release()) != 0) throw Refusal("write the calls file " + path + ": " + std::strerror(errno));
}
