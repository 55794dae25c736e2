package lab

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// TestAProfileFindsWhoAllocates knows what a put of 1 MiB over grpc-go costs its
// server: the first codec interface joins each chunk's buffers in fresh memory, and
// vtprotobuf copies it out of there once more. In pooled messages nothing is left of
// either.
func TestAProfileFindsWhoAllocates(t *testing.T) {
	takesSeconds(t)
	const transfer = 1 << 20
	s := oneCell(t, "grpc:codec=vt1,grpc:codec=vt2,messages=pooled")
	p := &s.Parts[0]
	p.Workload, p.Sizes, p.Clients = "store:op=put,chunks=64", []scenario.Payload{{}}, []int{1}
	p.Profile = scenario.Allocations
	for _, r := range runAll(t, newLab(t), s) {
		if r.Failure != "" {
			t.Fatal(r.Failure)
		}
		for end, a := range map[string]*record.Allocations{"server": r.Server.Allocations, "client": r.Client.Allocations} {
			if r.Probe != "alloc" || a == nil || a.Bytes <= 0 || a.Objects <= 0 || len(a.Stacks) == 0 {
				t.Fatalf("%s: the %s's profile is %+v", r.Cell.Variant, end, a)
			}
		}
		if r.Wire != nil {
			t.Errorf("%s: calls were made for a census, which the server's profile counts", r.Cell.Variant)
		}
		each := float64(r.Server.Allocations.Bytes) / float64(r.Calls()) / transfer
		if strings.Contains(r.Cell.Variant, "pooled") {
			if each > maxPooled() {
				t.Errorf("%s allocates %.2f times what arrives", r.Cell.Variant, each)
			}
			continue
		}
		if each < 2 || each > 2.8 { // 16 KiB and some bytes take 18 KiB of the heap
			t.Errorf("%s allocates %.2f times what arrives, want 2 to 2.8", r.Cell.Variant, each)
		}
		var most [2]string
		for i := range most {
			functions := r.Server.Allocations.Stacks[i].Functions
			most[i] = functions[len(functions)-1]
		}
		if text := strings.Join(most[:], " "); !strings.Contains(text, "mem.BufferSlice.Materialize") || !strings.Contains(text, "storepb.(*Chunk).UnmarshalVT") {
			t.Errorf("most is allocated by %v", most)
		}
	}
}

// maxPooled returns the most that a server with pooled messages may allocate, as a multiple of
// the bytes that arrive. Under the race detector sync.Pool drops some messages at random.
func maxPooled() float64 {
	info, _ := debug.ReadBuildInfo()
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 1.6
	}
	return 0.3
}
