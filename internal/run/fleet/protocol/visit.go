package protocol

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Visit is a connection that looks at a fleet. Close must be called.
type Visit struct {
	RoundTrip time.Duration // to the hub and back
	Cards     []Card        // of the agents that are there, by name

	Credentials *Credentials
	Conn        *nats.Conn
}

// Look connects to the hub and reads who is there.
func Look(ctx context.Context, credentials *Credentials) (*Visit, error) {
	conn, err := Connect(ctx, credentials, "visit", nil)
	if err != nil {
		return nil, err
	}
	v := &Visit{Credentials: credentials, Conn: conn}
	if err := v.Again(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return v, nil
}

// Close ends the visit.
func (v *Visit) Close() { v.Conn.Close() }

// HubPatience limits the wait for a hub that is connected.
const HubPatience = 10 * time.Second

// Again reads anew who is there.
func (v *Visit) Again(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, HubPatience)
	defer cancel()
	var err error
	if v.RoundTrip, err = v.Conn.RTT(); err != nil {
		return fmt.Errorf("ask the hub: %w", err)
	}
	stream, err := jetstream.New(v.Conn)
	if err != nil {
		return fmt.Errorf("open the hub: %w", err)
	}
	bucket, err := stream.KeyValue(ctx, v.Credentials.AgentsBucket())
	if err != nil {
		return fmt.Errorf("open the bucket of agents: %w: is this NATS prepared for the fleet %s?", err, v.Credentials.Project)
	}
	v.Cards, err = Cards(ctx, bucket)
	return err
}
