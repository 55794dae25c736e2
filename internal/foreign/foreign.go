// Package foreign lists the other projects' programs that wirelab supports.
//
//	a command, or a file ─> Commands ───> arguments of wirelab load
//	a report in JSON ─────> Summaries ──> a record
//	a call ───────────────> Generators ─> the program that repeats it, and what it counted
//
// Each program has its own folder here. The packages flags, summary and generator contain the
// shared code. To add a program, add a folder and a line to the lists below.
package foreign

import (
	"wirelab.dev/internal/foreign/ab"
	"wirelab.dev/internal/foreign/bombardier"
	"wirelab.dev/internal/foreign/curl"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/foreign/fortio"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/foreign/ghz"
	"wirelab.dev/internal/foreign/grpcurl"
	"wirelab.dev/internal/foreign/h2load"
	"wirelab.dev/internal/foreign/hey"
	"wirelab.dev/internal/foreign/k6"
	"wirelab.dev/internal/foreign/oha"
	"wirelab.dev/internal/foreign/summary"
	"wirelab.dev/internal/foreign/vegeta"
	"wirelab.dev/internal/foreign/wrk"
)

// Commands lists the tools whose commands and files `wirelab load` can translate.
var Commands = flags.Tools{
	ghz.Tool, grpcurl.Tool, wrk.Tool, bombardier.Tool, oha.Tool, hey.Tool, h2load.Tool, fortio.Tool, curl.Tool, ab.Tool, vegeta.Tool, k6.Tool,
}

// Summaries lists the report formats that wirelab import can read.
var Summaries = summary.Formats{ghz.Summary, oha.Summary, k6.Summary, fortio.Summary}

// Generators lists the load generators that can replace wirelab's client in a measurement.
var Generators = generator.List{h2load.Generator, ghz.Generator, wrk.Generator}
