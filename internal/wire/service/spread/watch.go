package spread

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/service"
)

// maxPlaces bounds the places of a load whose addresses change.
const maxPlaces = 1024

// A watcher looks addresses up again and again.
type watcher struct {
	*service.Addresses
	change func(found []string) bool // calls these addresses from now on; false if they are the same as before

	guard   sync.Mutex
	lookUps record.LookUps
}

// run looks up until ctx ends.
func (w *watcher) run(ctx context.Context) {
	every := time.NewTicker(w.LookUp.Every)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		found, err := w.LookUp.Find(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = w.checkFound(found)
		}
		changed := err == nil && w.change(found)
		w.guard.Lock()
		w.lookUps = w.lookUps.Plus(lookedUp(changed, err))
		w.guard.Unlock()
	}
}

func (w *watcher) counts() *record.LookUps {
	w.guard.Lock()
	defer w.guard.Unlock()
	return new(w.lookUps)
}

// lookedUp returns the counts of one look-up.
func lookedUp(changed bool, err error) (one record.LookUps) {
	one.Done = 1
	if changed {
		one.Changes = 1
	}
	if err != nil {
		one.Failed, one.Example = 1, err.Error()
	}
	return one
}

// checkFound returns an error if the addresses must not be called: the user permits a load of public
// addresses only before it starts.
func (w *watcher) checkFound(found []string) error {
	if public := slices.IndexFunc(found, service.IsPublic); public >= 0 && !slices.ContainsFunc(w.All, service.IsPublic) {
		return fmt.Errorf("found %s, which is neither this machine nor a private network, and so not among the addresses before the load", found[public])
	}
	if len(found) > maxPlaces {
		return fmt.Errorf("found %d addresses: at most %d are called", len(found), maxPlaces)
	}
	return nil
}
