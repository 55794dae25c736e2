#include "course.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "clock.h"

namespace {

// The number of calls of a caller that have memory before the first, if that many are asked for.
constexpr int64_t kExpectedAtMost = 1 << 16;
// How often callers that have no slices yet ask for them.
constexpr int64_t kAskEvery = 25'000'000;

}  // namespace

Caller::Caller(Course& course, uint32_t number, int64_t requests)
    : course_(course),
      number_(number),
      requests_(requests),
      journal_(static_cast<size_t>(std::min(requests, kExpectedAtMost))) {}

Turn Caller::Ask(int64_t now) {
  const Turn turn = course_.stopped() ? Turn::kEnd : now < course_.rest_ns_ ? InWindow(now) : InSlices(now);
  if (turn == Turn::kEnd && course_.active_.fetch_sub(1) == 1) course_.finish_.Set();
  return turn;
}

Turn Caller::InWindow(int64_t now) {
  if (requests_ == 0 && !behind_ && now >= course_.end_ns_.load(std::memory_order_relaxed)) {
    behind_ = true;
    course_.ahead_.fetch_sub(1);
  }
  const bool wanted = requests_ > 0 ? measured() < requests_ : course_.ahead_.load(std::memory_order_relaxed) > 0;
  return wanted ? Turn::kCall : Turn::kEnd;
}

Turn Caller::InSlices(int64_t now) {
  const auto* slices = course_.slices_.load(std::memory_order_acquire);
  if (slices == nullptr) return Turn::kRest;
  while (slice_ < slices->size() && now >= (*slices)[slice_].to_ns) slice_++;
  if (slice_ == slices->size()) return Turn::kEnd;
  return now < (*slices)[slice_].send_ns ? Turn::kRest : Turn::kCall;
}

void Caller::Ended(int64_t sent, int64_t ended, uint32_t failure) {
  journal_.Add({sent, sent, ended, number_, failure});
  last_ns_ = ended;
  took_ns_.store(took_ns() + ended - sent, std::memory_order_relaxed);
  if (sent >= course_.begin_ns()) measured_.store(measured() + 1, std::memory_order_relaxed);
}

Course::Course(const ClientSpec& spec) : spec_(spec), ahead_(spec.clients), active_(spec.clients) {
  for (int i = 0; i < spec.clients; i++) {
    const int64_t requests = spec.requests > 0 ? spec.requests + (i < spec.extra_requests ? 1 : 0) : 0;
    callers_.push_back(std::make_unique<Caller>(*this, static_cast<uint32_t>(i), requests));
  }
}

void Course::Open() {
  const int64_t warm_ns = Now() + spec_.warm_up_ns;
  if (spec_.block) {
    rest_ns_ = warm_ns;
    begin_ns_ = end_ns_ = INT64_MAX;
    return;
  }
  begin_ns_ = warm_ns;
  if (timed()) end_ns_ = warm_ns + spec_.duration_ns;
}

std::string Course::TakeSlices(const std::vector<Slice>& slices) {
  if (slices_ != nullptr) return "";  // only the first ones count
  if (slices.empty()) return "control slices: there is none";
  int64_t before = 0;
  for (const auto& slice : slices)
    for (const int64_t instant : {slice.send_ns, slice.from_ns, slice.to_ns})
      if (instant < std::exchange(before, instant)) return "control slices: their instants do not increase";
  if (slices.front().from_ns <= Now()) return "control slices: they came after the first should have begun";
  const std::lock_guard lock(guard_);
  given_ = slices;
  begin_ns_ = slices.front().from_ns;
  end_ns_ = slices.back().to_ns;
  slices_.store(&given_, std::memory_order_release);
  turn_.notify_all();
  return "";
}

int64_t Course::NextTurn(int64_t now) const {
  const auto* slices = slices_.load(std::memory_order_acquire);
  if (slices == nullptr) return now + kAskEvery;
  const auto next = std::find_if(slices->begin(), slices->end(), [now](const Slice& slice) { return slice.to_ns > now; });
  return next == slices->end() ? now : std::max(now, next->send_ns);
}

void Course::AwaitTurn() {
  std::unique_lock lock(guard_);
  turn_.wait(lock, [this] { return slices_ != nullptr || stopped(); });
  // The steady clock is CLOCK_MONOTONIC.
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(NextTurn(Now()))};
  turn_.wait_until(lock, until, [this] { return stopped(); });
}

void Course::Stop() {
  const std::lock_guard lock(guard_);
  stopped_.store(true, std::memory_order_relaxed);
  turn_.notify_all();
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

int64_t Course::took_ns() const {
  int64_t sum = 0;
  for (const auto& caller : callers_) sum += caller->took_ns();
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
