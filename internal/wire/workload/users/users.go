// Package users is the workload `users`: a back end that looks users up, lists them
// and creates new ones, with validation, errors and waiting like a real one.
//
// A call passes through these stages:
//
//  1. A caller (caller.go) picks an operation by weight (mix.go).
//  2. It sends a request that was made from its seed before the window opened
//     (maker.go).
//  3. The handler (handler.go) checks the request against the rules (rules.go).
//  4. The handler simulates work by sleeping, and reads or writes the users
//     (store.go).
//  5. The caller checks the answer.
//
// The service's logic is only here: every stack carries this handler, and each stack
// translates its errors in its own way.
package users

import (
	"fmt"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

// Workload is users. The zero value is ready.
type Workload struct{}

var _ workload.Workload = Workload{}

// The keys of the options.
const (
	operationKey = "op"
	mixKey       = "mix"
	workKey      = "work"
	usersKey     = "users"
	limitKey     = "limit"
)

// Info describes users. The operation decides how big a call is.
func (Workload) Info() workload.Info {
	const most = 1_000_000
	return workload.Info{
		Name: "users", Summary: "a users API: look up, list, create; 10 ms of simulated work",
		Options: []scenario.Option{
			{Key: operationKey, Role: scenario.OperationRole, Values: operationNames[:], Default: operationNames[getUser], Parse: scenario.Parser(parseMix), Help: "what each call does; a small user is 0.2 KB, a large one 12.6 KB"},
			{Key: mixKey, Role: scenario.OperationRole, Parse: scenario.Parser(parseMix), Help: "OP*WEIGHT+OP*WEIGHT: several operations, drawn by weight, as in mix=get-user*8+create-small*2"},
			{Key: workKey, Role: scenario.SimulatedWorkRole, Default: "10ms", Parse: scenario.Time, Help: "TIME: how long the handler sleeps, in place of a database"},
			{Key: usersKey, Default: "1000", Parse: scenario.IntBetween(1, most), Help: "N: how many users there are from the beginning"},
			{Key: limitKey, Default: "20", Parse: scenario.IntBetween(1, maxLimit), Help: "N: how many users a get-users asks for"},
		},
		Operations: len(userspb.UserService_ServiceDesc.Methods),
	}
}

// plan holds the parsed options.
type plan struct {
	mix   mix
	work  time.Duration
	users int
	limit int
}

func readPlan(options *scenario.Options) plan {
	read := plan{
		mix:   scenario.Value[mix](options, operationKey), // parses as a mix with one operation
		work:  scenario.Value[time.Duration](options, workKey),
		users: scenario.Value[int](options, usersKey),
		limit: scenario.Value[int](options, limitKey),
	}
	if options.Has(mixKey) {
		read.mix = scenario.Value[mix](options, mixKey)
		if options.Has(operationKey) {
			options.Fail(fmt.Errorf("%s and %s are both set: set only one", operationKey, mixKey))
		}
	}
	return read
}

// Check refuses sizes: the options decide how big a call is.
func (w Workload) Check(p workload.Parameters) error {
	return p.Check(w, 0, func(o *scenario.Options) { readPlan(o) })
}

// Register registers a handler with its own store.
func (w Workload) Register(to grpc.ServiceRegistrar, p workload.Parameters) {
	read := readPlan(workload.ReadOptions(w, p))
	userspb.RegisterUserServiceServer(to, &handler{work: read.work, store: newStore(initialUsers(read.users))})
}

// NewCaller makes one client.
func (w Workload) NewCaller(conn grpc.ClientConnInterface, job workload.Job) workload.Caller {
	return newCaller(conn, job, readPlan(workload.ReadOptions(w, job.Parameters)))
}
