#include "measure.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>

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

// Waits until the callers have finished, or for a time at most. Whether the input has ended.
bool InputEnds(const Course& course, int64_t at_most_ns) {
  pollfd wait[] = {{STDIN_FILENO, POLLIN, 0}, {course.finish_fd(), POLLIN, 0}};
  poll(wait, 2, static_cast<int>(std::max<int64_t>(at_most_ns, 0) / kMillisecond) + 1);
  char said[4096];
  return wait[0].revents != 0 && read(STDIN_FILENO, said, sizeof said) <= 0;
}

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

  // Returns when all callers have finished.
  void Run() {
    while (!course_.finished()) {
      if (InputEnds(course_, NextLook() - Now())) {
        Cancel(client_, course_);
        throw Refusal("standard input ended in the middle of the measurement: stopped");
      }
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
  int64_t NextLook() const {
    int64_t next = reported_ns_ + kReportEvery;
    if (!before_counted_) next = std::min(next, course_.begin_ns() - kCountAhead);
    if (course_.timed()) next = std::min(next, GivesUp());
    return next;
  }

  // When what is still in flight is cancelled.
  int64_t GivesUp() const {
    return spec_.client.drain_ns + (course_.timed() ? course_.end_ns() : progressed_ns_);
  }

  void Look(int64_t now) {
    if (!before_counted_ && now >= course_.begin_ns() - kCountAhead) {
      before_ = client_.Count();
      before_counted_ = true;
    }
    const uint64_t done = course_.done();
    if (done != done_ || progressed_ns_ == 0) progressed_ns_ = now;
    done_ = done;
    if (now >= reported_ns_ + kReportEvery) {
      reported_ns_ = now;
      EmitProgress({now < course_.begin_ns(), done, Fraction(now)});
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
