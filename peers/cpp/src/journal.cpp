#include "journal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

Journal::Journal(size_t expected) {
  for (size_t calls = 0; calls == 0 || calls < expected; calls += kChunk)
    chunks_.push_back(std::make_unique<Call[]>(kChunk));  // zeros, and so in memory
}

void Journal::Add(const Call& call) {
  const auto at = size();
  if (at / kChunk == chunks_.size()) chunks_.push_back(std::make_unique_for_overwrite<Call[]>(kChunk));
  chunks_[at / kChunk][at % kChunk] = call;
  size_.store(at + 1, std::memory_order_relaxed);
}

void Journal::Write(std::FILE* to) const {
  uint64_t left = size();
  for (const auto& chunk : chunks_) {
    const size_t calls = std::min<uint64_t>(left, kChunk);
    if (std::fwrite(chunk.get(), sizeof(Call), calls, to) != calls)
      throw Refusal(std::string("write the calls file: ") + std::strerror(errno));
    left -= calls;
  }
}

uint32_t Failures::Number(const FailureKind& failure) {
  const std::lock_guard lock(guard_);
  const auto same = [&](const FailureKind& k) { return k.kind == failure.kind && k.code == failure.code; };
  const auto found = std::find_if(kinds_.begin(), kinds_.end(), same);
  const auto number = static_cast<uint32_t>(found - kinds_.begin()) + 1;
  if (found == kinds_.end()) kinds_.push_back(failure);
  return number;
}

std::vector<FailureKind> Failures::all() const {
  const std::lock_guard lock(guard_);
  return kinds_;
}
