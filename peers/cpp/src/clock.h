// The clock of all files and events: CLOCK_MONOTONIC, in nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

inline int64_t Now() {
  timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
}

// Whole milliseconds to an instant, rounded up.
inline int MillisecondsTo(int64_t instant) {
  const int64_t left = instant - Now();
  return left <= 0 ? 0 : static_cast<int>((left + 999'999) / 1'000'000);
}
