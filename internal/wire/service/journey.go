package service

import (
	"context"
	"time"

	"wirelab.dev/internal/base/expect"
)

// A Journey is a file that says, step by step, what users do at a service.
type Journey struct {
	Name string `json:"name"` // of the file, for errors
	File []byte `json:"file"`
	// Drawn says that a client may be any kind of user, each round anew: arrivals say who
	// calls, and a kind whose answers are slow would otherwise call less often than its weight.
	Drawn bool `json:"drawn,omitempty"`
}

// A Follower is a source whose requests depend on the answers before.
type Follower interface {
	Source
	// Begin makes what calls are needed before the others.
	Begin(context.Context, Client) error
	// Uses says what is looked at of the answer to the last request.
	Uses() expect.Uses
	// Follow looks at the answer to the last request, and says what is wrong with it. A
	// request that is not followed by it has failed.
	Follow(*expect.Look) error
	// Think returns how long the user waits before the next request.
	Think() time.Duration
}
