package link

import "time"

// An Engine names the mechanism that carries the packets of a link.
type Engine string

// The engines. A link takes the first that can do what is asked of it.
const (
	Direct Engine = "direct" // a bare pair of interfaces, which does nothing
	TBF    Engine = "tbf"    // the kernel's token bucket (tc-tbf(8)): a rate and its queue
	Netem  Engine = "netem"  // the kernel's emulator (tc-netem(8)), where it has one
	Frames Engine = "frames" // this package's forwarder
)

// Counts holds what a link really did.
type Counts struct {
	Engine   Engine
	Up, Down PathCounts
}

// PathCounts counts the packets of one direction by what happened to them.
type PathCounts struct {
	Frames, Bytes int64 // that came to the link
	Sent          int64 // frames that left it, duplicates included
	Lost          int64 // as Loss and Burst ask
	Reordered     int64 // frames that later ones overtook
	Duplicated    int64 // frames that left twice
	Dropped       int64 // since the queue of the rate was full, as asked
	Overrun       int64 // unwanted losses: the emulator had no room

	// How long frames were held, and how much longer than asked. The kernel's
	// engines tell neither: DelayKnown is false.
	DelayP50, DelayP99 time.Duration
	LateP50, LateP99   time.Duration
	DelayKnown         bool
}
