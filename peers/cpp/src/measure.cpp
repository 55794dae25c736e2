#include "measure.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "client.h"
#include "clock.h"
#include "course.h"
#include "events.h"

namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kReportEvery = 250 * kMillisecond;
// How long cancelled calls may take to end.
constexpr int64_t kCancelling = 4'000 * kMillisecond;
// Connections are counted so long before the window opens, since that takes a moment.
constexpr int64_t kCountAhead = 20 * kMillisecond;
// How long a client of a block waits for its slices.
constexpr int64_t kRestsAtMost = 600'000 * kMillisecond;
// A longer line of the input is no control.
constexpr size_t kLongestLine = 1 << 20;

// Fails what is in flight, and waits for it.
void Cancel(Client& client, Course& course) {
  course.Stop();
  client.Cancel();
  const int64_t until = Now() + kCancelling;
  while (!course.finished()) {
    if (Now() > until) throw Refusal("calls that were cancelled have not ended");
    pollfd wait{course.finish_fd(), POLLIN, 0};
    poll(&wait, 1, 100);
  }
}

// A measurement that is going on.
class Measurement {
 public:
  Measurement(const Spec& spec, Client& client, Course& course) : spec_(spec), client_(client), course_(course) {}

  // Returns when all callers have finished, and the other clients of a block have, too.
  void Run() {
    while (!course_.finished() || Now() < over_ns_) {
      if (InputEnds(NextLook() - Now())) GiveUp("standard input ended in the middle of the measurement: stopped");
      Look(Now());
    }
    after_ = client_.Count();
    if (!before_counted_) before_ = after_;
  }

  ConnectionCounts total() const { return after_; }
  ConnectionCounts window() const {
    return {after_.opened - before_.opened, after_.failed - before_.failed, after_.open};
  }

 private:
  [[noreturn]] void GiveUp(const std::string& why) {
    Cancel(client_, course_);
    throw Refusal(why);
  }

  // Waits until the callers have finished, or for a time at most. Whether the input has ended.
  bool InputEnds(int64_t at_most_ns) {
    pollfd wait[] = {{STDIN_FILENO, POLLIN, 0}, {course_.finish_fd(), POLLIN, 0}};
    poll(wait, course_.finished() ? 1 : 2, static_cast<int>(std::max<int64_t>(at_most_ns, 0) / kMillisecond) + 1);
    if (wait[0].revents == 0) return false;
    char said[4096];
    const ssize_t count = read(STDIN_FILENO, said, sizeof said);
    if (count <= 0) return true;
    input_.append(said, static_cast<size_t>(count));
    for (size_t end; (end = input_.find('\n')) != std::string::npos; input_.erase(0, end + 1)) Obey(input_.substr(0, end));
    if (input_.size() > kLongestLine) input_.clear();
    return false;
  }

  void Obey(const std::string& line) {
    const auto turns = ParseTurns(line);
    if (!turns) return;
    if (const auto wrong = course_.TakeSlices(turns->slices); !wrong.empty()) GiveUp(wrong);
    over_ns_ = turns->over_ns;
  }

  int64_t NextLook() const {
    int64_t next = reported_ns_ + kReportEvery;
    if (!before_counted_) next = std::min(next, course_.begin_ns() - kCountAhead);
    if (!rested_) next = std::min(next, course_.rest_ns());
    if (course_.finished()) return std::min(next, over_ns_);
    if (course_.timed()) next = std::min(next, GivesUp());
    return next;
  }

  // When what is still in flight is cancelled.
  int64_t GivesUp() const {
    const int64_t since = course_.timed() ? course_.end_ns() : progressed_ns_;
    return since + std::min(spec_.client.drain_ns, INT64_MAX - since);
  }

  void Look(int64_t now) {
    if (!before_counted_ && now >= course_.begin_ns() - kCountAhead) {
      before_ = client_.Count();
      before_counted_ = true;
    }
    const uint64_t done = course_.done();
    if (done != done_ || progressed_ns_ == 0) progressed_ns_ = now;
    done_ = done;
    const bool rests = course_.rests(now);
    if (rests && now > course_.rest_ns() + kRestsAtMost)
      GiveUp("no control slices came within ten minutes after the warm-up");
    const bool begins_rest = rests && !std::exchange(rested_, rests);  // whoever gives the slices waits to be told
    if (begins_rest || now >= reported_ns_ + kReportEvery) {
      reported_ns_ = now;
      const int64_t mean_ns = course_.took_ns() / static_cast<int64_t>(std::max<uint64_t>(done, 1));
      EmitProgress({now < course_.begin_ns(), done, Fraction(now), rests, mean_ns});
    }
    if (now >= GivesUp() && !course_.finished()) Cancel(client_, course_);
  }

  double Fraction(int64_t now) const {
    if (now < course_.begin_ns()) return 0;
    const auto& client = spec_.client;
    const double all = course_.timed() ? static_cast<double>(client.duration_ns)
                                       : static_cast<double>(client.requests) * client.clients;
    const double part = course_.timed() ? static_cast<double>(now - course_.begin_ns())
                                        : static_cast<double>(course_.measured());
    return std::min(part / all, 1.0);
  }

  const Spec& spec_;
  Client& client_;
  Course& course_;
  ConnectionCounts before_, after_;
  bool before_counted_ = false;
  uint64_t done_ = 0;
  int64_t progressed_ns_ = 0;
  int64_t reported_ns_ = Now();
  bool rested_ = false;
  int64_t over_ns_ = 0;  // when the last slice of all clients ends
  std::string input_;    // without the lines that were read
};

}  // namespace

void Measure(const Spec& spec) {
  Course course(spec.client);
  const auto client = spec.stack == "tcp" ? MakeTcpClient(spec, course) : MakeGrpcClient(spec, course);
  EmitReady(spec, spec.address, client->settings());
  course.Open();
  client->Start();
  Measurement measurement(spec, *client, course);
  measurement.Run();
  course.Write(spec.client.calls_file);
  EmitMeasured(spec, {course.begin_ns(), course.end_ns(), course.done(), course.failures().all(), measurement.total(),
                      measurement.window()});
}
