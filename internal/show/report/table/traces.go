package table

import (
	"io"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report/format"
)

// WriteTraces names the traces of the slowest requests, so that they can be found in a tracing
// system; nothing where none was sent.
func WriteTraces(w io.Writer, s *analysis.Summary) error {
	const most = 5 // the others are in the JSON
	var out loadText
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Traced == 0 {
			continue
		}
		of := ""
		if len(s.Cells) > 1 {
			of = " with " + DescribeClients(c)
		}
		out.line("traces", "%s of %s requests%s carry one; the slowest of them:", units.Thousands(c.Traced), units.Thousands(c.Requests), of)
		for _, t := range c.Traces[:min(len(c.Traces), most)] {
			failed := ""
			if t.Failed {
				failed = ", failed"
			}
			out.line("traces", "%s %s%s", t.ID, format.Micros(t.LatencyUS), failed)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
