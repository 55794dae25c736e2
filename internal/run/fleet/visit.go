package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"wirelab.dev/internal/data/record"
)

// Visit is a look at a fleet. Close must be called.
type Visit struct {
	RoundTrip time.Duration // to the hub and back
	Cards     []Card        // of the agents that are there, by name

	credentials *Credentials
	conn        *nats.Conn
}

// Look connects to the hub and reads who is there.
func Look(ctx context.Context, credentials *Credentials) (*Visit, error) {
	conn, err := Connect(ctx, credentials, "visit", nil)
	if err != nil {
		return nil, err
	}
	v := &Visit{credentials: credentials, conn: conn}
	if err := v.Again(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return v, nil
}

// Close ends the visit.
func (v *Visit) Close() { v.conn.Close() }

// hubPatience limits the wait for a hub that is connected.
const hubPatience = 10 * time.Second

// Again reads anew who is there.
func (v *Visit) Again(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	var err error
	if v.RoundTrip, err = v.conn.RTT(); err != nil {
		return fmt.Errorf("ask the hub: %w", err)
	}
	stream, err := jetstream.New(v.conn)
	if err != nil {
		return fmt.Errorf("open the hub: %w", err)
	}
	bucket, err := stream.KeyValue(ctx, v.credentials.AgentsBucket())
	if err != nil {
		return fmt.Errorf("open the bucket of agents: %w: is this NATS prepared for the fleet %s?", err, v.credentials.Project)
	}
	v.Cards, err = Cards(ctx, bucket)
	return err
}

// Checked is an agent that was asked for its clock.
type Checked struct {
	Card

	Clock record.Clock
	Err   error // why there is no clock
}

// Check asks all agents for their clocks, a few at a time.
func (v *Visit) Check(ctx context.Context) []Checked {
	found := make([]Checked, len(v.Cards))
	var asking sync.WaitGroup
	turns := make(chan struct{}, askedAtOnce)
	for i, card := range v.Cards {
		turns <- struct{}{}
		asking.Go(func() {
			defer func() { <-turns }()
			c, err := compareWith(ctx, v.conn, v.credentials, card.Name)
			if errors.Is(err, errGone) {
				err = errors.New("its card is there, but it hears nothing: it has just ended, or is connected to another hub")
			}
			found[i] = Checked{Card: card, Clock: clockBetween(c, c), Err: err}
		})
	}
	asking.Wait()
	return found
}
