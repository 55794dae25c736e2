package journey

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/template"
)

// Uses returns the parts of answers that any step needs.
func (s *Script) Uses() expect.Uses { return s.uses }

// Kinds returns the names of the kinds of users.
func (s *Script) Kinds() []string {
	var all []string
	for _, k := range s.kinds {
		all = append(all, k.name)
	}
	return all
}

// KindsOf returns the kind of each user. For every N, the first N users have each kind in
// proportion to its weight, as closely as possible.
func (s *Script) KindsOf(users int) []int {
	total := s.weights()
	has := make([]int, len(s.kinds))
	all := make([]int, users)
	for i := range all {
		best := 0
		for k := range s.kinds { // choose the kind whose number of users is furthest below its share
			if s.kinds[k].weight*(i+1)-has[k]*total > s.kinds[best].weight*(i+1)-has[best]*total {
				best = k
			}
		}
		all[i] = best
		has[best]++
	}
	return all
}

func (s *Script) weights() int {
	total := 0
	for _, k := range s.kinds {
		total += k.weight
	}
	return total
}

// UnusedKind returns a kind that none of the users has, or "". from is the smallest number of users
// with which every kind is used.
func (s *Script) UnusedKind(users int) (name string, from int) {
	total := s.weights()
	seen := make([]bool, len(s.kinds))
	left := len(s.kinds)
	for i, k := range s.KindsOf(total) { // further users repeat these kinds
		if !seen[k] {
			seen[k] = true
			left--
			if i >= users {
				name = s.kinds[k].name
			}
		}
		if left == 0 {
			return name, i + 1
		}
	}
	return name, total
}

// A User identifies one user.
type User struct {
	Client, Clients int // Client is this client's number, from 0; Clients is how many there are
	Kind            int
	Drawn           bool // choose the kind of user again, by weight, in each round
	Seed            uint64
	Header          []service.Field // added to each request, besides the file's header fields
}

// Source makes the requests of one user. Only one goroutine may use it.
type Source struct {
	script *Script
	user   User
	random *rand.Rand
	number int // the call's number, counted from 1 over all clients

	login  *action
	kinds  []userKind // all kinds of users, with this user's row filled in
	kind   *userKind
	step   int // index of the next step
	passed bool
	last   *action // the step that made the last request
	call   *template.Call
	logged map[string]any // values that the login took from its answer
}

var _ service.Follower = (*Source)(nil)

// Source returns a source that makes the requests of one user.
func (s *Script) Source(u User) *Source {
	random := rand.New(rand.NewPCG(u.Seed, uint64(u.Client))) //nolint:gosec // a client's number is not negative
	made := &Source{script: s, user: u, random: random, number: u.Client + 1 - u.Clients, logged: map[string]any{}}
	made.call = template.NewCall(u.Client, random)
	if s.login != nil {
		login := *s.login
		login.form = made.call.BindForm(login.form, u.Header)
		made.login = &login
	}
	for _, k := range s.kinds {
		k.steps = slices.Clone(k.steps)
		for i := range k.steps {
			k.steps[i].form = made.call.BindForm(k.steps[i].form, u.Header)
		}
		made.kinds = append(made.kinds, k)
	}
	made.kind = &made.kinds[u.Kind]
	if len(s.rows) > 0 {
		made.call.Row = s.rows[u.Client%len(s.rows)]
	}
	made.call.Taken = map[string]any{}
	return made
}

// Begin logs the user in.
func (s *Source) Begin(ctx context.Context, client service.Client) error {
	if s.login == nil {
		return nil
	}
	s.call.Begin(s.user.Client + 1)
	request, err := s.fill(s.login)
	if err != nil {
		return fmt.Errorf("login: %w", err)
	}
	var answer service.Answer
	sent := time.Now()
	if err := client.Call(ctx, request, &answer); err != nil {
		return fmt.Errorf("login: %w", err)
	}
	kind := expect.HTTP
	if request.GRPC {
		kind = expect.GRPC
	}
	status := &service.StatusError{GRPC: request.GRPC, Status: answer.Status, Message: answer.Message}
	if (s.login.expect == nil || !s.login.expect.Uses().Status) && !service.IsUsual(kind, answer.Status) {
		return fmt.Errorf("login: %w", status)
	}
	seen, err := s.login.decode(answer.ForConditions(kind, time.Since(sent)))
	if err != nil {
		return fmt.Errorf("login: %w", err)
	}
	look := expect.NewEvaluator()
	look.SetAnswer(seen)
	if err := s.login.checkAndTake(look, s.logged); err != nil {
		return fmt.Errorf("login (%s): %w", status.Describe(), err)
	}
	return nil
}

// Next returns the next step's request. After the last step or a failed step, a new round begins.
func (s *Source) Next() (*service.Request, error) {
	if !s.passed || s.step == len(s.kind.steps) {
		s.step = 0
		s.call.Taken = maps.Clone(s.logged)
		if s.user.Drawn {
			s.kind = &s.kinds[s.randomKind()]
		}
	}
	s.last = &s.kind.steps[s.step]
	s.step++
	s.passed = false
	s.number += s.user.Clients
	s.call.Begin(s.number)
	return s.fill(s.last)
}

func (s *Source) fill(a *action) (*service.Request, error) {
	made, err := s.call.Fill(&a.form)
	if err == nil {
		err = a.complete(made)
	}
	return made, err
}

// DecodeAnswer converts the last step's answer into JSON, if it is a gRPC message.
func (s *Source) DecodeAnswer(seen expect.Answer) (expect.Answer, error) { return s.last.decode(seen) }

// RoundEnded reports whether the last request completed a round without a failure.
func (s *Source) RoundEnded() bool { return s.passed && s.step == len(s.kind.steps) }

func (s *Source) randomKind() int {
	at := s.random.IntN(s.script.weights())
	for i, k := range s.kinds {
		if at -= k.weight; at < 0 {
			return i
		}
	}
	return 0
}

// Uses returns the parts of the last request's answer that the step needs.
func (s *Source) Uses() expect.Uses {
	if s.last == nil || s.last.expect == nil {
		return expect.Uses{}
	}
	return s.last.expect.Uses()
}

// Follow checks the answer to the last request, and takes values from it for later requests.
func (s *Source) Follow(look *expect.Evaluator) error {
	err := s.last.checkAndTake(look, s.call.Taken)
	s.passed = err == nil
	return err
}

// Think returns how long the user thinks after the last step.
func (s *Source) Think() time.Duration {
	if s.last == nil {
		return 0
	}
	return s.last.think.random(s.random)
}

func (a *action) checkAndTake(look *expect.Evaluator, values map[string]any) error {
	if a.expect != nil {
		if err := a.expect.Check(look); err != nil {
			return err
		}
	}
	for _, t := range a.take {
		value, err := t.value.Of(look)
		if err != nil {
			return err
		}
		values[t.name] = value
	}
	return nil
}
