package stack

import (
	"context"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/rpc/chanpool"
)

const (
	poolKey  = "pool"
	autoPool = "auto"
	// mostPooled limits the connections that a pool opens: the library's default.
	mostPooled = 16
	// poolDial bounds how long a pool waits for a further connection.
	poolDial = 10 * time.Second
)

// AutoConnection is the mode of variants with pool=auto.
var AutoConnection = scenario.Connection{Mode: scenario.Auto, Size: mostPooled}

// PoolOption is the option of stacks whose connections a pool can choose.
func PoolOption() scenario.Option {
	return scenario.Option{
		Key: poolKey, Values: []string{"off", autoPool}, Default: "off", Role: scenario.ConnectionsRole,
		Help: "auto: as many connections as wirelab.dev/rpc/chanpool finds useful, 16 at most; wins over the connection mode",
	}
}

// Pooled reports whether a variant has it.
func Pooled(v scenario.Variant) bool {
	value, _ := v.Get(poolKey)
	return value == autoPool
}

// NewPool makes a client whose connections a pool opens and closes, where connections are kept.
func (c *Connector) NewPool(ctx context.Context, open OpenFunc) (Client, error) {
	if c.Target.Lifecycle != conn.Kept {
		return c.NewPerCall(ctx, open)
	}
	first, err := open(ctx, nil)
	if err != nil {
		return nil, err
	}
	later := context.WithoutCancel(ctx)
	pool, err := chanpool.New(func() (chanpool.Channel, error) {
		if first != nil {
			one := first
			first = nil
			return one, nil
		}
		ctx, cancel := context.WithTimeout(later, poolDial)
		defer cancel()
		return open(ctx, nil)
	}, chanpool.Max(mostPooled))
	if err != nil { // the pool had the connection, and has closed it
		return nil, err
	}
	return pool, nil
}
