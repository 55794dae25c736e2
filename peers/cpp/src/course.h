// The course of a measurement: who may call, and when.
//
// A warm-up leads to the window, whose instants are known before anybody calls. With a
// duration every caller goes on until all have ended the calls that they began in it; with a
// number of requests each stops when it has made that number. In a block they rest after the
// warm-up, and then call in their slices alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "journal.h"
#include "socket.h"
#include "spec.h"

class Course;

// What a caller does at an instant: a call, nothing for a while, or nothing any more.
enum class Turn { kCall, kRest, kEnd };

// One caller. Not for several threads at once.
class alignas(64) Caller {  // callers share no cache line
 public:
  Caller(Course& course, uint32_t number, int64_t requests);

  // What it does at the instant, at which the call begins. After the end it asks no more.
  Turn Ask(int64_t now);

  // Writes down a call that it made; no failure is 0.
  void Ended(int64_t sent, int64_t ended, uint32_t failure);

  uint32_t number() const { return number_; }
  Course& course() const { return course_; }
  const Journal& journal() const { return journal_; }
  int64_t measured() const { return measured_.load(std::memory_order_relaxed); }
  int64_t took_ns() const { return took_ns_.load(std::memory_order_relaxed); }
  int64_t last_ns() const { return last_ns_; }  // when its last call ended

 private:
  Turn InWindow(int64_t now);
  Turn InSlices(int64_t now);

  Course& course_;
  const uint32_t number_;
  const int64_t requests_;  // to measure; 0: there is a duration
  std::atomic<int64_t> measured_ = 0;  // its calls in the window
  std::atomic<int64_t> took_ns_ = 0;   // all its calls
  int64_t last_ns_ = 0;
  bool behind_ = false;  // all that it began in the window has ended
  size_t slice_ = 0;     // the slices before it are over
  Journal journal_;
};

class Course {
 public:
  explicit Course(const ClientSpec& spec);

  // Sets the instants of the window. Nobody has called before.
  void Open();

  // Gives the callers their slices, which are the window. Returns what is wrong with them, if
  // anything is.
  std::string TakeSlices(const std::vector<Slice>& slices);
  // Whether the callers rest until they get their slices.
  bool rests(int64_t now) const { return now >= rest_ns_ && slices_ == nullptr; }
  int64_t rest_ns() const { return rest_ns_; }
  // When callers that rest are to ask again.
  int64_t NextTurn(int64_t now) const;
  // Waits until then, for a caller that has nothing else to do.
  void AwaitTurn();

  // Nobody begins another call.
  void Stop();
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  bool finished() const { return active_.load() == 0; }
  // Becomes readable when all callers have finished.
  int finish_fd() const { return finish_.fd(); }

  // Of a block it is the maximum until the slices are known.
  int64_t begin_ns() const { return begin_ns_.load(std::memory_order_relaxed); }
  // Where a number of requests is asked for it is known when all have finished.
  int64_t end_ns() const;
  bool timed() const { return spec_.requests <= 0; }
  uint64_t done() const;      // calls of all callers so far
  int64_t took_ns() const;    // how long they took, all of them
  uint64_t measured() const;  // those of them that began in the window

  Caller& caller(int number) { return *callers_[static_cast<size_t>(number)]; }
  int callers() const { return static_cast<int>(callers_.size()); }
  Failures& failures() { return failures_; }

  // Puts all calls into the file, once nobody calls any more.
  void Write(const std::string& path) const;

 private:
  friend class Caller;

  const ClientSpec& spec_;
  std::atomic<int64_t> begin_ns_ = 0;
  std::atomic<int64_t> end_ns_ = 0;  // 0: with the last answer
  int64_t rest_ns_ = INT64_MAX;      // when the callers of a block rest
  std::vector<Slice> given_;
  std::atomic<const std::vector<Slice>*> slices_ = nullptr;  // given_, once they are there
  std::mutex guard_;
  std::condition_variable turn_;  // there are slices, or nobody calls any more
  std::vector<std::unique_ptr<Caller>> callers_;
  Failures failures_;
  alignas(64) std::atomic<bool> stopped_ = false;
  std::atomic<int> ahead_;   // callers with calls of the window
  std::atomic<int> active_;  // callers that have not finished
  Wake finish_;
};
