package main

import (
	"strings"
	"testing"
)

func TestSizes(t *testing.T) {
	listed := `  401000       100 T wirelab.dev/internal/run/lab.Run
  401100        20 R type:*wirelab.dev/internal/run/lab.Plan
  401200        50 T main.main
  401300        70 T github.com/nats-io/nats-server/v2/server.(*client).parse
  401400         7 R go:itab.*github.com/nats-io/nats%2ego.Conn,io.Writer
  401500      1000 T runtime.mallocgc
  401600      9999 B runtime.heap
  401700  33554432 D crypto/internal/fips140/drbg.memory
  401800           U nothing
`
	modules := []string{"wirelab.dev", "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go", "wirelab.dev/rpc"}
	want := []part{{"std", 1000, 0}, {"wirelab.dev", 150, 20}, {"github.com/nats-io/nats-server/v2", 70, 0}, {"github.com/nats-io/nats.go", 0, 7}}
	found := sizes(strings.NewReader(listed), modules)
	if len(found) != len(want) {
		t.Fatalf("found %v, want %v", found, want)
	}
	for i := range want {
		if found[i] != want[i] {
			t.Errorf("found %v, want %v", found[i], want[i])
		}
	}
	var out strings.Builder
	if err := write(&out, found, 0.002); err != nil || !strings.Contains(out.String(), "wirelab.dev\n") {
		t.Errorf("found %q (%v)", &out, err)
	}
}
