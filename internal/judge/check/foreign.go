package check

import "wirelab.dev/internal/data/record"

// judgeForeign judges a measurement of another program. Its file has the number of failed
// calls, and nothing else that checks read.
func judgeForeign(t trial) []record.Check {
	failures := t.failures()
	failures.Name = "errors"
	return []record.Check{failures, {
		Name: "limits", Level: record.Unknown,
		Detail: "nothing in the file shows whether the load generator, the machine or the server was at a limit",
	}}
}
