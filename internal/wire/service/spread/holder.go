package spread

import (
	"context"
	"sync"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/service"
)

var _ service.Holder = (*holder)(nil)

// A holder divides held streams among the places. A stream stays at its place.
type holder struct {
	*Client
	guard sync.Mutex
	homes map[int]*place // by stream
}

// CallersPerStream returns how many neighbouring callers share a stream.
func (h *holder) CallersPerStream() int { return h.plan.Holding.InFlight }

// Hold gives a caller its stream, at the home of the stream, or at the next place that accepts it.
func (h *holder) Hold(ctx context.Context, number int, request *service.Request, answer *service.Answer) (err error) {
	t := h.table.Load()
	own := &caller{number: number / h.CallersPerStream(), of: t}
	for range t.places {
		p := h.choose(t, own)
		if request == nil { // the first caller of the stream has opened it
			p = h.home(own.number)
		}
		var client service.Client
		if client, err = h.clientOf(p); err != nil {
			continue
		}
		answer.CallerState = nil
		err = client.(service.Holder).Hold(ctx, number, request, answer)
		answer.CallerState = &stay{place: p, state: answer.CallerState}
		if err == nil {
			h.guard.Lock()
			h.homes[own.number] = p
			h.guard.Unlock()
			return nil
		}
		if !neverSent(err) || ctx.Err() != nil {
			return err
		}
		p.fail(err)
	}
	return err
}

func (h *holder) home(stream int) *place {
	h.guard.Lock()
	defer h.guard.Unlock()
	return h.homes[stream]
}

// A stay is a caller whose stream is at one place.
type stay struct {
	*place
	state any // what the place's engine keeps of the caller
}

// Call makes one exchange on the caller's stream.
func (h *holder) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	own, is := answer.CallerState.(*stay)
	if !is {
		return h.Client.Call(ctx, request, answer)
	}
	answer.CallerState = own.state
	err := (*own.client.Load()).Call(ctx, request, answer)
	own.state = answer.CallerState
	answer.CallerState, answer.Address = own, own.address
	return err
}

// Streams returns the counts of the streams at all places.
func (h *holder) Streams() *record.Streams {
	var all *record.Streams
	for _, p := range h.table.Load().places {
		if client := p.client.Load(); client != nil {
			one := (*client).(service.Holder).Streams()
			if all != nil {
				*one = all.Plus(*one)
			}
			all = one
		}
	}
	return all
}
