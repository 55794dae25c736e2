package chanpool

import (
	"log/slog"
	"time"
)

// Option changes what a pool does by default.
type Option func(*options)

type options struct {
	min, max int
	epoch    time.Duration
	logger   *slog.Logger
}

func defaultOptions() options { return options{min: 1, max: 16, epoch: 50 * time.Millisecond} }

// Min is how many channels are open at least: 1 by default.
func Min(n int) Option { return func(o *options) { o.min = n } }

// Max is how many channels are open at most: 16 by default.
func Max(n int) Option { return func(o *options) { o.max = n } }

// Fixed keeps n channels open, and measures and tries nothing.
func Fixed(n int) Option { return func(o *options) { o.min, o.max = n, n } }

// Epoch is how long one number of channels is used before another is, while the two are
// compared: 50 ms by default, and longer where calls are. Shorter ones decide sooner, and are
// misled more easily.
func Epoch(d time.Duration) Option { return func(o *options) { o.epoch = d } }

// Logger gets a line for each decision. By default nothing is logged.
func Logger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }
