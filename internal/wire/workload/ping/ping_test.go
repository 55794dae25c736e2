package ping

import (
	"testing"

	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/workloadtest"
)

func TestPing(t *testing.T) {
	conn := workloadtest.Connect(t, Workload{}, workload.Parameters{})
	c := Workload{}.NewCaller(conn, workload.Job{})
	for range 3 {
		workloadtest.ExpectError(t, "ping", workloadtest.CallAndCheck(t, c), "")
	}
}
