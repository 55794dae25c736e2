package rpc_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// maxModules bounds the modules that a program gets which imports only fastgrpc, this one
// included. Today it gets 7.
const maxModules = 12

// TestFewModules checks that fastgrpc brings few modules into a program.
func TestFewModules(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./fastgrpc").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	modules = slices.Compact(modules)
	if !slices.Contains(modules, "google.golang.org/grpc") || len(modules) > maxModules {
		t.Errorf("fastgrpc needs %d modules, want at most %d:\n%s", len(modules), maxModules, strings.Join(modules, "\n"))
	}
}
