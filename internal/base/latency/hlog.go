package latency

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Interval is one line of a histogram log: the durations recorded in Length from
// Start on. Tag distinguishes series in one log; it may be empty.
type Interval struct {
	Tag    string
	Start  time.Time
	Length time.Duration
	*Histogram
}

// LogWriter writes a histogram log (.hlog, format 1.3), which the HistogramLogReader
// of every HdrHistogram port and the usual plotters read. Times are seconds since
// the log's start, the highest value of an interval is in milliseconds, and the
// histogram's values are nanoseconds.
type LogWriter struct {
	to *hdrhistogram.HistogramLogWriter
}

// NewLogWriter writes the header of a log that starts at the given time, rounded
// down to a second, the resolution of the header.
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
			return nil, fmt.Errorf("latency: write the header of a histogram log: %w", err)
		}
	}
	l.to.SetBaseTime(base)
	return l, nil
}

// Write adds one interval. Readers expect intervals in the order of their starts.
func (l *LogWriter) Write(interval Interval) error {
	if strings.ContainsAny(interval.Tag, ", \t\r\n") {
		return fmt.Errorf("latency: tag %q of a histogram log contains a comma or white space", interval.Tag)
	}
	line := interval.buckets.Clone()
	line.SetTag(interval.Tag)
	line.SetStartTimeMs(interval.Start.UnixMilli())
	line.SetEndTimeMs(interval.Start.Add(interval.Length).UnixMilli())
	if err := l.to.OutputIntervalHistogram(line); err != nil {
		return fmt.Errorf("latency: write a histogram log: %w", err)
	}
	return nil
}
