package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/analysis"
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
	_, err := io.WriteString(w, out.String())
	return err
}

func scalingTable(out io.Writer, s *analysis.Summary, scaling analysis.Scaling) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "in flight\treq/s\tideal\tof it\tlaw\tP50\tP90\tP99\tP99.9\tP100\tclient\tserver\t")
	for _, p := range scaling.Points {
		i := slices.IndexFunc(s.Cells, func(c analysis.Cell) bool {
			return c.Part == scaling.Part && c.Variant == scaling.Variant && c.Connection == scaling.Connection &&
				c.Workload == scaling.Workload && c.RequestBytes == scaling.RequestBytes && c.Clients == p.Clients
		})
		if i < 0 {
			continue
		}
		cell := &s.Cells[i]
		latency := &cell.Service
		if cell.Response != nil {
			latency = cell.Response
		}
		ideal, share := absent, absent
		if p.Ideal != nil {
			ideal, share = perSecond(*p.Ideal), fmt.Sprintf("%.0f %%", 100**p.Share)
		}
		fitted := absent
		if p.Law != nil {
			fitted = perSecond(*p.Law)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n",
			p.Clients, perSecond(p.Throughput.Value), ideal, share, fitted,
			micros(latency.P50.Value), micros(latency.P90.Value), micros(latency.P99.Value), micros(latency.P999.Value), micros(latency.Max.Value),
			busy(cell.Client.Busy), busy(cell.Server.Busy))
	}
	return table.Flush()
}

func busy(f *analysis.Figure) string {
	if f == nil {
		return absent
	}
	return fmt.Sprintf("%.0f %%", 100*f.Value)
}

// law writes the fitted law out.
func law(s analysis.Scaling) string {
	if s.Law == nil {
		return "No scalability law is fitted: " + s.Reason
	}
	text := fmt.Sprintf("Scalability law: X(N) = %s N / (1 + σ(N−1) + κN(N−1)), σ %s (contention), κ %s (coherency), off by %.1f %% in the mean",
		perSecond(s.Law.Ideal.Value), figure3(s.Law.Contention), figure3(s.Law.Coherency), 100*s.Law.Misfit)
	if s.Law.Peak != nil {
		text += fmt.Sprintf("; the peak is at %s in flight", figure3(*s.Law.Peak))
	}
	return text
}

func figure3(f analysis.Figure) string {
	if f.Interval == nil {
		return fmt.Sprintf("%.3g", f.Value)
	}
	return fmt.Sprintf("%.3g (%.3g to %.3g)", f.Value, f.Interval.Low, f.Interval.High)
}
