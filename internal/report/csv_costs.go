package report

import (
	"strconv"

	"wirelab.dev/internal/analysis"
)

// csvConnections is how the connections lived, and what became of the requests.
func csvConnections() []csvColumn {
	count := func(title string, of func(*analysis.Connections) int64) csvColumn {
		return csvColumn{title, func(c *analysis.Cell) string {
			if !c.HasFigures() {
				return ""
			}
			return strconv.FormatInt(of(&c.Connections), 10)
		}}
	}
	columns := []csvColumn{
		{"survival_share", func(c *analysis.Cell) string {
			if c.Survival.Share == nil {
				return ""
			}
			return strconv.FormatFloat(*c.Survival.Share, 'g', -1, 64)
		}},
		count("connections_during", func(c *analysis.Connections) int64 { return c.During }),
		count("connections_failed", func(c *analysis.Connections) int64 { return c.Failed }),
		count("handshakes_full", func(c *analysis.Connections) int64 { return c.Full }),
		count("handshakes_resumed", func(c *analysis.Connections) int64 { return c.Resumed }),
		count("handshakes_early", func(c *analysis.Connections) int64 { return c.Early }),
		count("handshakes_early_refused", func(c *analysis.Connections) int64 { return c.EarlyRefused }),
		count("handshakes_failed", func(c *analysis.Connections) int64 { return c.HandshakeFailed }),
		{"connections_achieved_share", func(c *analysis.Cell) string {
			if c.Connections.Achieved == nil {
				return ""
			}
			return strconv.FormatFloat(*c.Connections.Achieved, 'g', -1, 64)
		}},
	}
	for _, of := range []struct {
		name  string
		times func(*analysis.Connections) *analysis.Times
	}{
		{"connect", func(c *analysis.Connections) *analysis.Times { return c.Connect }},
		{"handshake", func(c *analysis.Connections) *analysis.Times { return c.Handshake }},
		{"first_byte", func(c *analysis.Connections) *analysis.Times { return c.FirstByte }},
	} {
		figure := func(pick func(*analysis.Times) *analysis.Figure) func(*analysis.Cell) *analysis.Figure {
			return func(c *analysis.Cell) *analysis.Figure {
				if t := of.times(&c.Connections); t != nil {
					return pick(t)
				}
				return nil
			}
		}
		columns = append(columns, csvFigure(of.name+"_p50_us", figure(func(t *analysis.Times) *analysis.Figure { return &t.P50 }))...)
		columns = append(columns, csvFigure(of.name+"_p99_us", figure(func(t *analysis.Times) *analysis.Figure { return &t.P99 }))...)
	}
	return columns
}

// csvEnd is what one end cost besides its CPU time a request.
func csvEnd(name string, of func(*analysis.Cell) *analysis.End) []csvColumn {
	var columns []csvColumn
	for _, figure := range []struct {
		title string
		of    func(*analysis.End) *analysis.Figure
	}{
		{"_cpu_share", func(e *analysis.End) *analysis.Figure { return e.Share }},
		{"_busy_share", func(e *analysis.End) *analysis.Figure { return e.Busy }},
		{"_rss_bytes", func(e *analysis.End) *analysis.Figure { return e.RSS }},
		{"_peak_bytes", func(e *analysis.End) *analysis.Figure { return e.Peak }},
		{"_own_bytes", func(e *analysis.End) *analysis.Figure { return e.Own }},
		{"_heap_bytes", func(e *analysis.End) *analysis.Figure { return e.Heap }},
		{"_threads", func(e *analysis.End) *analysis.Figure { return e.Threads }},
		{"_sockets", func(e *analysis.End) *analysis.Figure { return e.Sockets }},
		{"_goroutines", func(e *analysis.End) *analysis.Figure { return e.Goroutines }},
	} {
		columns = append(columns, csvFigure(name+figure.title, func(c *analysis.Cell) *analysis.Figure { return figure.of(of(c)) })...)
	}
	return columns
}

// csvBytes is what a request takes of the network: over the window, and of one
// call on its own.
func csvBytes() []csvColumn {
	traffic := func(pick func(*analysis.Traffic) *analysis.Figure) func(*analysis.Cell) *analysis.Figure {
		return func(c *analysis.Cell) *analysis.Figure {
			if c.Traffic == nil {
				return nil
			}
			return pick(c.Traffic)
		}
	}
	wire := func(pick func(*analysis.Wire) *analysis.Figure) func(*analysis.Cell) *analysis.Figure {
		return func(c *analysis.Cell) *analysis.Figure {
			if c.Wire == nil {
				return nil
			}
			return pick(c.Wire)
		}
	}
	var columns []csvColumn
	for _, figure := range []struct {
		title string
		of    func(*analysis.Cell) *analysis.Figure
	}{
		{"sent_bytes_per_request", traffic(func(t *analysis.Traffic) *analysis.Figure { return &t.Sent.Bytes })},
		{"received_bytes_per_request", traffic(func(t *analysis.Traffic) *analysis.Figure { return &t.Received.Bytes })},
		{"sent_packets_per_request", traffic(func(t *analysis.Traffic) *analysis.Figure { return t.Sent.Packets })},
		{"received_packets_per_request", traffic(func(t *analysis.Traffic) *analysis.Figure { return t.Received.Packets })},
		{"sent_packets_per_call", traffic(func(t *analysis.Traffic) *analysis.Figure { return t.Sent.PerCall })},
		{"received_packets_per_call", traffic(func(t *analysis.Traffic) *analysis.Figure { return t.Received.PerCall })},
		{"retransmits_per_thousand", traffic(func(t *analysis.Traffic) *analysis.Figure { return t.Retransmits })},
		{"rtt_us", traffic(func(t *analysis.Traffic) *analysis.Figure { return t.RTT })},
		{"wire_request_bytes", wire(func(w *analysis.Wire) *analysis.Figure { return &w.Request.Total })},
		{"wire_response_bytes", wire(func(w *analysis.Wire) *analysis.Figure { return &w.Response.Total })},
	} {
		columns = append(columns, csvFigure(figure.title, figure.of)...)
	}
	return columns
}
