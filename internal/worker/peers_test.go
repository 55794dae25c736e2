package worker_test

import (
	"os"
	"testing"

	"wirelab.dev/internal/peer"
	"wirelab.dev/internal/worker/conform"
)

func TestPeersKeepTheContract(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs in other languages for minutes (-short)")
	}
	for _, p := range peer.All() {
		t.Run(p.Name, func(t *testing.T) {
			if lacks := p.Missing(); lacks != "" {
				t.Skip(lacks)
			}
			program, err := p.Build(t.Context(), os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			for _, stack := range p.Stacks {
				t.Run(stack, func(t *testing.T) {
					t.Parallel() // nothing is measured
					holdAgainstContract(t, conform.Peer{
						Command: []string{program}, Reference: self(t, "worker"), Stack: stack, Server: true,
					})
				})
			}
		})
	}
}
