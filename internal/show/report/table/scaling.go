package table

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// WriteScaling prints, for each variant, how throughput and latency follow the
// calls in flight, with the ideal line and the fitted law beside them.
func WriteScaling(w io.Writer, s *analysis.Summary) error {
	var out strings.Builder
	for i, scaling := range s.Scalings {
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%s (%s), %s\n", scaling.Variant, scaling.Connection, scaling.Workload)
		if err := scalingTable(&out, s, scaling); err != nil {
			return err
		}
		out.WriteString(law(scaling) + "\n")
	}
	if cells := Ordered(s.Cells); len(cells) > 0 {
		out.WriteString("\n" + strings.Join(tailTexts(cells), "\n") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func scalingTable(out io.Writer, s *analysis.Summary, scaling curves.Scaling) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "in flight\treq/s\tideal\tof it\tlaw\tP50\tP90\tP99\tP99.9\tP100\tclient\tserver\t")
	for _, p := range scaling.Points {
		i := slices.IndexFunc(s.Cells, func(c matrix.Cell) bool {
			return c.Part == scaling.Part && c.Variant == scaling.Variant && c.Connection == scaling.Connection &&
				c.Workload == scaling.Workload && c.Payload == scaling.Payload && c.Clients == p.Clients
		})
		if i < 0 {
			continue
		}
		cell := &s.Cells[i]
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t", p.Clients, format.PerSecond(p.Throughput.Value), optional(p.Ideal, format.PerSecond), optional(p.Share, wholePercent), optional(p.Law, format.PerSecond))
		for _, quantile := range []string{"P50", "P90", "P99", "P999", "Max"} {
			fmt.Fprintf(table, "%s\t", format.Micros(FigureAt(cell.ResponseTimes(), quantile).Value))
		}
		for _, end := range []*matrix.Figure{cell.Client.Busy, cell.Server.Busy} {
			share := format.Absent
			if end != nil {
				share = wholePercent(end.Value)
			}
			fmt.Fprintf(table, "%s\t", share)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

func optional(value *float64, show func(float64) string) string {
	if value == nil {
		return format.Absent
	}
	return show(*value)
}

func wholePercent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// law writes the fitted law out.
func law(s curves.Scaling) string {
	if s.Law == nil {
		return "No scalability law is fitted: " + s.Reason
	}
	text := fmt.Sprintf("Scalability law: X(N) = %s N / (1 + σ(N−1) + κN(N−1)), σ %s (contention), κ %s (coherency), off by %.1f %% in the mean",
		format.PerSecond(s.Law.Ideal.Value), withInterval(s.Law.Contention), withInterval(s.Law.Coherency), 100*s.Law.Misfit)
	if s.Law.Peak != nil {
		text += fmt.Sprintf("; the peak is at %s in flight", withInterval(*s.Law.Peak))
	}
	return text
}

func withInterval(f matrix.Figure) string {
	if f.Interval == nil {
		return fmt.Sprintf("%.3g", f.Value)
	}
	return fmt.Sprintf("%.3g (%.3g to %.3g)", f.Value, f.Interval.Low, f.Interval.High)
}
