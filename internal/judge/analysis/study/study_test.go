package study

import (
	"testing"

	"wirelab.dev/internal/data/scenario"
)

// Who calls is told by the option that has that role, whatever its name.
func TestVariantsThatOthersCall(t *testing.T) {
	s := &Study{}
	s.Stacks = []scenario.Declaration{scenario.Declare("grpc", []scenario.Option{
		{Key: "by", Default: "own", Role: scenario.CallerRole}, {Key: "codec", Default: "proto"},
	})}
	for name, want := range map[string]bool{
		"grpc": false, "grpc:by=own": false, "grpc:codec=vt1": false, "grpc:by=load": true, "grpc:by=load,codec=vt1": true, "tcp:by=load": false,
	} {
		if got := s.HasForeignCaller(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
