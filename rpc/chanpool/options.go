package chanpool

import (
	"log/slog"
	"time"
)

// An Option configures a pool.
type Option func(*options)

type options struct {
	min, max int
	epoch    time.Duration
	logger   *slog.Logger
}

func defaultOptions() options { return options{min: 1, max: 16, epoch: 50 * time.Millisecond} }

// Min sets the least number of open channels, 1 by default.
func Min(n int) Option { return func(o *options) { o.min = n } }

// Max sets the largest number of open channels, 16 by default.
func Max(n int) Option { return func(o *options) { o.max = n } }

// Fixed keeps n channels open. The pool then measures nothing.
func Fixed(n int) Option { return func(o *options) { o.min, o.max = n, n } }

// Epoch sets the time for which a trial uses one number of channels before it changes to the
// other: 50 ms by default, and longer if calls take longer. Shorter epochs decide sooner, and
// are misled more easily.
func Epoch(d time.Duration) Option { return func(o *options) { o.epoch = d } }

// Logger sets the logger, which gets a line for each decision. By default nothing is logged.
func Logger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }
