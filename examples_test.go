package wirelab

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The examples are modules of their own, as a user's are. Each is built and run as its README says; what
// it prints must be there. -short measures for a moment only.
func TestExamplesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the modules in examples, which takes many seconds")
	}
	examples := map[string]struct {
		command, prints []string
	}{
		"shop":     {[]string{"test", "-count=1", "-short", "-v", "-bench=.", "-benchtime=1x", "."}, []string{"--- PASS: TestShopIsFast/get", "--- PASS: TestShopIsFast/order", "fastgrpc", "grpc-h3", "BenchmarkShop"}},
		"fastgrpc": {[]string{"run", "."}, []string{"the server is SERVING"}},
		"chanpool": {[]string{"run", "."}, []string{"10000 calls are answered"}},
	}
	modules, err := filepath.Glob("examples/*/go.mod")
	if err != nil || len(modules) != len(examples) {
		t.Errorf("examples has the modules %q, %v: want one per row of this test", modules, err)
	}
	for name, example := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join("examples", name)
			for _, arguments := range [][]string{{"vet", "./..."}, example.command} {
				command := exec.CommandContext(t.Context(), "go", arguments...)
				command.Dir = folder
				output, err := command.CombinedOutput()
				if err != nil {
					t.Fatalf("go %s in %s: %v\n%s", strings.Join(arguments, " "), folder, err, output)
				}
				if !slices.Equal(arguments, example.command) {
					continue
				}
				for _, want := range example.prints {
					if !strings.Contains(string(output), want) {
						t.Errorf("go %s in %s does not print %q:\n%s", strings.Join(arguments, " "), folder, want, output)
					}
				}
			}
			readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
			if lines := strings.Count(string(readme), "\n"); err != nil || lines > 15 {
				t.Errorf("the README has %d lines, %v: want at most 15", lines, err)
			}
		})
	}
}
