// The course of a measurement: who may call, and when.
//
// A warm-up leads to the window, whose instants are known before anybody calls. With a
// duration every caller goes on until all have ended the calls that they began in it; with a
// number of requests each stops when it has made that number.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "journal.h"
#include "socket.h"
#include "spec.h"

class Course;

// One caller. Not for several threads at once.
class alignas(64) Caller {  // callers share no cache line
 public:
  Caller(Course& course, uint32_t number, int64_t requests);

  // Whether it makes another call, which begins at the instant. After a no it asks no more.
  bool Goes(int64_t now);

  // Writes down a call that it made; no failure is 0.
  void Ended(int64_t sent, int64_t ended, uint32_t failure);

  uint32_t number() const { return number_; }
  Course& course() const { return course_; }
  const Journal& journal() const { return journal_; }
  int64_t measured() const { return measured_.load(std::memory_order_relaxed); }
  int64_t last_ns() const { return last_ns_; }  // when its last call ended

 private:
  Course& course_;
  const uint32_t number_;
  const int64_t requests_;  // to measure; 0: there is a duration
  std::atomic<int64_t> measured_ = 0;  // its calls in the window
  int64_t last_ns_ = 0;
  bool behind_ = false;  // all that it began in the window has ended
  Journal journal_;
};

class Course {
 public:
  explicit Course(const ClientSpec& spec);

  // Sets the instants of the window. Nobody has called before.
  void Open();

  // Nobody begins another call.
  void Stop() { stopped_.store(true, std::memory_order_relaxed); }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  bool finished() const { return active_.load() == 0; }
  // Becomes readable when all callers have finished.
  int finish_fd() const { return finish_.fd(); }

  int64_t begin_ns() const { return begin_ns_; }
  // Where a number of requests is asked for it is known when all have finished.
  int64_t end_ns() const;
  bool timed() const { return spec_.requests <= 0; }
  uint64_t done() const;      // calls of all callers so far
  uint64_t measured() const;  // those of them that began in the window

  Caller& caller(int number) { return *callers_[static_cast<size_t>(number)]; }
  int callers() const { return static_cast<int>(callers_.size()); }
  Failures& failures() { return failures_; }

  // Puts all calls into the file, once nobody calls any more.
  void Write(const std::string& path) const;

 private:
  friend class Caller;

  const ClientSpec& spec_;
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;  // 0: with the last answer
  std::vector<std::unique_ptr<Caller>> callers_;
  Failures failures_;
  alignas(64) std::atomic<bool> stopped_ = false;
  std::atomic<int> ahead_;   // callers with calls of the window
  std::atomic<int> active_;  // callers that have not finished
  Wake finish_;
};
