package latency

import "iter"

// Sample is one request, in nanoseconds.
type Sample struct {
	Start    int64 // the intended instant, since the window began; negative before it
	Wait     int64 // from the intended instant to the actual send
	Service  int64 // from the actual send to the end
	Response int64 // from the intended instant to the end
	Failed   bool
}

// chunkSamples is the number of samples that are mapped at a time: 640 KiB.
const chunkSamples = 16 << 10

// SampleLog keeps every sample of one client, outside the Go heap. Like a [Recorder]
// it belongs to one goroutine.
type SampleLog struct {
	worker int32
	chunks []sampleChunk
	full   int // chunks before this one are full
	used   int // samples used of the chunk at full
}

type sampleChunk struct {
	samples []Sample
	release func()
}

// NewSampleLog returns an empty log with room for the expected number of samples.
// Within it, Append makes no system call and causes no page fault; after it, every
// 16,384 samples cost a mapping.
func NewSampleLog(worker int32, expected int) *SampleLog {
	l := &SampleLog{worker: worker}
	for expected > 0 {
		l.grow(min(expected, chunkSamples))
		expected -= chunkSamples
	}
	return l
}

func (l *SampleLog) grow(samples int) {
	memory, release := offHeap[Sample](samples, true)
	l.chunks = append(l.chunks, sampleChunk{memory, release})
}

// Append adds a sample.
func (l *SampleLog) Append(sample Sample) {
	if l.full == len(l.chunks) {
		l.grow(chunkSamples)
	}
	chunk := l.chunks[l.full].samples
	chunk[l.used] = sample
	l.used++
	if l.used == len(chunk) {
		l.full++
		l.used = 0
	}
}

// Len returns the number of samples.
func (l *SampleLog) Len() int {
	length := l.used
	for _, chunk := range l.chunks[:l.full] {
		length += len(chunk.samples)
	}
	return length
}

// All returns the samples in the order of Append.
func (l *SampleLog) All() iter.Seq[Sample] {
	return func(yield func(Sample) bool) {
		for i, chunk := range l.chunks {
			samples := chunk.samples
			if i == l.full {
				samples = samples[:l.used]
			}
			for _, sample := range samples {
				if !yield(sample) {
					return
				}
			}
			if i == l.full {
				return
			}
		}
	}
}

// Close frees the memory. The log must not be used afterwards; a second Close does
// nothing.
func (l *SampleLog) Close() {
	for _, chunk := range l.chunks {
		chunk.release()
	}
	l.chunks, l.full, l.used = nil, 0, 0
}
