package insight

import (
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// The ends of a wire.
const (
	ClientEnd = "client"
	ServerEnd = "server"
)

// bothEnds lists the ends with their processes.
var bothEnds = []struct {
	name string
	of   func(matrix.Trial) record.Process
}{{ClientEnd, matrix.ClientOf}, {ServerEnd, matrix.ServerOf}}
