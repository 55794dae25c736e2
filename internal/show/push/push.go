// Package push sends a load's metrics to systems that collect them: by OTLP, or by Prometheus's remote
// write. A system that scrapes would miss the end of a short load.
//
// This package must not know what the metrics mean.
package push

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/show/view"
)

// Every is the time between two pushes.
const Every = 2 * time.Second

// pushTimeout limits one push, because a load must not wait for a receiver at its end.
const pushTimeout = 5 * time.Second

// A Target is a receiver of metrics.
type Target struct {
	text     string
	protocol string
	url      *url.URL // nil means that OpenTelemetry's environment variables name the receiver
}

const (
	otlp        = "otlp"
	remoteWrite = "prometheus"
)

// ParseTarget parses otlp, otlp=URL or prometheus=URL.
func ParseTarget(text string) (Target, error) {
	const want = "want otlp, otlp=http://HOST:4318, or prometheus=http://HOST:9090/api/v1/write"
	protocol, address, hasURL := strings.Cut(text, "=")
	t := Target{text: text, protocol: protocol}
	if protocol != otlp && protocol != remoteWrite || protocol == remoteWrite && !hasURL {
		return t, fmt.Errorf("found %q: %s", text, want)
	}
	if !hasURL {
		return t, nil
	}
	var err error
	if t.url, err = url.Parse(address); err != nil || t.url.Scheme != "http" && t.url.Scheme != "https" || t.url.Host == "" {
		return t, fmt.Errorf("found %q, which names no http:// or https:// URL: %s", text, want)
	}
	return t, nil
}

// A sender sends all metrics of one instant.
type sender interface {
	send(ctx context.Context, families []view.Family, begun, now time.Time) error
	close()
}

// A Pusher pushes a load's metrics until Close.
type Pusher struct {
	metrics *view.Metrics
	begun   time.Time
	senders []sender
	targets []Target
	stop    chan struct{}
	pushing sync.WaitGroup

	tried, failed int
	last          error
}

// Start pushes the metrics once to each target, and then every few seconds. run names the load in the
// pushed metrics. It returns an error if the first push fails, so that a load does not begin whose
// metrics nobody would get.
func Start(ctx context.Context, metrics *view.Metrics, run string, targets []Target, header []Header) (*Pusher, error) {
	p := &Pusher{metrics: metrics, begun: time.Now(), targets: targets, stop: make(chan struct{})}
	for _, t := range targets {
		s, err := t.newSender(run, header)
		if err != nil {
			return nil, fmt.Errorf("--push %s: %w", t.text, err)
		}
		p.senders = append(p.senders, s)
	}
	if err := p.push(ctx); err != nil {
		p.closeSenders()
		return nil, err
	}
	p.pushing.Go(func() { // ends with Close
		ticker := time.NewTicker(Every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = p.push(ctx) // Close reports the failures
			case <-p.stop:
				return
			}
		}
	})
	return p, nil
}

func (t Target) newSender(run string, header []Header) (sender, error) {
	if t.protocol == otlp {
		return newOTLP(t.url, run, header)
	}
	return newRemoteWriter(t.url, run, header), nil
}

func (p *Pusher) push(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	families, now := p.metrics.Families(), time.Now()
	var all error
	for i, s := range p.senders {
		p.tried++
		if err := s.send(ctx, families, p.begun, now); err != nil {
			p.failed++
			p.last = fmt.Errorf("--push %s: %w", p.targets[i].text, err)
			all = errors.Join(all, p.last)
		}
	}
	return all
}

// Close pushes the metrics a last time. It returns an error that says how many pushes failed.
func (p *Pusher) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // the end of a load that was interrupted is pushed, too
	close(p.stop)
	p.pushing.Wait()
	_ = p.push(ctx)
	p.closeSenders()
	if p.failed > 0 {
		return fmt.Errorf("%d of %d pushes of metrics failed; the last one: %w", p.failed, p.tried, p.last)
	}
	return nil
}

func (p *Pusher) closeSenders() {
	for _, s := range p.senders {
		s.close()
	}
}
