package latency

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Interval is one line of a histogram log: what was recorded from Start on, for
// Length. The tag tells apart series that share a log; it may be empty.
type Interval struct {
	Tag    string
	Start  time.Time
	Length time.Duration
	*Histogram
}

// LogWriter writes a histogram log (.hlog, format 1.3), which HistogramLogReader
// of every HdrHistogram port and the usual plotters read. Times stand in it as
// seconds since its start, the highest value of an interval in milliseconds, and
// the histogram's values in nanoseconds.
type LogWriter struct {
	to *hdrhistogram.HistogramLogWriter
}

// NewLogWriter writes the head of a log that starts at the given time, to the
// second before it, which is as fine as the head tells it.
func NewLogWriter(w io.Writer, start time.Time) (*LogWriter, error) {
	l := &LogWriter{to: hdrhistogram.NewHistogramLogWriter(w)}
	base := start.Truncate(time.Second).UnixMilli()
	for _, write := range []func() error{
		func() error { return l.to.OutputComment("[Logged with wirelab; values are nanoseconds]") },
		l.to.OutputLogFormatVersion,
		func() error { return l.to.OutputStartTime(base) },
		func() error { return l.to.OutputBaseTime(base) },
		l.to.OutputLegend,
	} {
		if err := write(); err != nil {
			return nil, fmt.Errorf("latency: writing the head of a histogram log: %w", err)
		}
	}
	l.to.SetBaseTime(base)
	return l, nil
}

// Write adds one interval. Readers expect them in the order of their starts.
func (l *LogWriter) Write(interval Interval) error {
	if strings.ContainsAny(interval.Tag, ", \t\r\n") {
		return fmt.Errorf("latency: the tag %q of a histogram log holds a comma or white space", interval.Tag)
	}
	line := interval.buckets.Clone()
	line.SetTag(interval.Tag)
	line.SetStartTimeMs(interval.Start.UnixMilli())
	line.SetEndTimeMs(interval.Start.Add(interval.Length).UnixMilli())
	if err := l.to.OutputIntervalHistogram(line); err != nil {
		return fmt.Errorf("latency: writing a histogram log: %w", err)
	}
	return nil
}
