package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"
)

// A run of ten requests costs little more than to start and to end it. The CPU time is of wirelab and its
// worker.
func BenchmarkStartOfLoad(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	b.Chdir(b.TempDir())
	for name, options := range map[string][]string{"nothing saved": {"--no-save"}, "saved": nil} {
		b.Run(name, func(b *testing.B) {
			var used time.Duration
			for b.Loop() {
				command := exec.Command("wirelab", append([]string{"load", "-n", "10", server.URL}, options...)...)
				if said, err := command.CombinedOutput(); command.ProcessState == nil || command.ProcessState.ExitCode() != exitDone && command.ProcessState.ExitCode() != exitInvalid {
					b.Fatalf("%v: %s", err, said)
				}
				used += command.ProcessState.UserTime() + command.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(used.Microseconds())/1e3/float64(b.N), "cpu-ms/op")
		})
	}
}
