// Package users is the workload `users`: a back end that looks up, lists and creates users. Like a
// real back end, it validates requests, returns errors and waits.
//
// A call passes through these stages:
//
//  1. A caller picks an operation by weight.
//  2. The caller sends a request that it made from its seed before the window opened.
//  3. The handler checks the request against the rules.
//  4. The handler simulates work by sleeping, and reads or writes the users.
//  5. The caller checks the answer.
//
// The service's logic is only here: every stack serves this handler, and each stack translates its
// errors in its own way.
package users

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

// Workload is users. The zero value is ready.
type Workload struct{}

const (
	operationKey = "op"
	mixKey       = "mix"
	workKey      = "work"
	usersKey     = "users"
	limitKey     = "limit"
)

// Info describes the workload. Its operations determine the message sizes.
func (Workload) Info() workload.Info {
	const most = 1_000_000
	return workload.Info{
		Name: "users", Summary: "a users API: look up, list, create; 10 ms of simulated work",
		Options: []scenario.Option{
			{Key: operationKey, Role: scenario.OperationRole, Values: operationNames[:], Default: operationNames[getUser], Parse: scenario.Parser(parseMix), Help: "what each call does; a small user has 0.2 KB, a large user 12.6 KB"},
			{Key: mixKey, Role: scenario.OperationRole, Parse: scenario.Parser(parseMix), Help: "OP*WEIGHT+OP*WEIGHT: several operations, chosen at random by weight, as in mix=get-user*8+create-small*2"},
			{Key: workKey, Role: scenario.SimulatedWorkRole, Default: "10ms", Parse: scenario.Time, Help: "TIME: how long the handler sleeps, in place of a database"},
			{Key: usersKey, Default: "1000", Parse: scenario.IntBetween(1, most), Help: "N: the initial number of users"},
			{Key: limitKey, Default: "20", Parse: scenario.IntBetween(1, maxLimit), Help: "N: users that each get-users call asks for"},
		},
		Operations: len(userspb.UserService_ServiceDesc.Methods),
	}
}

type plan struct {
	mix   operationMix
	work  time.Duration
	users int
	limit int
}

func readPlan(options *scenario.Options) plan {
	read := plan{
		mix:   scenario.Value[operationMix](options, operationKey), // a single operation is also a valid mix
		work:  scenario.Value[time.Duration](options, workKey),
		users: scenario.Value[int](options, usersKey),
		limit: scenario.Value[int](options, limitKey),
	}
	if options.Has(mixKey) {
		read.mix = scenario.Value[operationMix](options, mixKey)
		if options.Has(operationKey) {
			options.Fail(fmt.Errorf("%s and %s are both set: set only one", operationKey, mixKey))
		}
	}
	return read
}

// Check refuses sizes, because the options determine the size of a call.
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

type operation int

const (
	getUser operation = iota
	getUsers
	createSmall
	createLarge
)

var operationNames = [...]string{getUser: "get-user", getUsers: "get-users", createSmall: "create-small", createLarge: "create-large"}

type operationMix []weightedOperation

type weightedOperation struct {
	operation operation
	weight    int
}

// maxWeight keeps the sum of all weights from overflowing.
const maxWeight = 1_000_000

// parseMix parses OP*WEIGHT+OP*WEIGHT. The default weight is 1.
func parseMix(text string) (operationMix, error) {
	var m operationMix
	for part := range strings.SplitSeq(text, "+") {
		name, times, given := strings.Cut(part, "*")
		one := weightedOperation{weight: 1}
		if one.operation = operation(slices.Index(operationNames[:], name)); one.operation < 0 {
			return nil, fmt.Errorf("unknown operation %q: %s", name, spelling.Suggest(name, operationNames[:]))
		}
		if given {
			var err error
			one.weight, err = strconv.Atoi(times)
			if err != nil || one.weight < 1 || one.weight > maxWeight {
				return nil, fmt.Errorf("operation %q: want a weight that is a whole number from 1 to %d, as in get-user*8", part, maxWeight)
			}
		}
		if slices.ContainsFunc(m, func(other weightedOperation) bool { return other.operation == one.operation }) {
			return nil, fmt.Errorf("%s occurs twice: give each operation once", name)
		}
		m = append(m, one)
	}
	return m, nil
}

func (m operationMix) randomOperation(random *rand.Rand) operation {
	if len(m) == 1 {
		return m[0].operation
	}
	total := 0
	for _, one := range m {
		total += one.weight
	}
	at := random.IntN(total)
	for _, one := range m {
		if at -= one.weight; at < 0 {
			return one.operation
		}
	}
	panic("users: the weights do not add up")
}
