package service

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/schema"
)

// Expectations holds the conditions of a right answer. All callers share them.
type Expectations struct {
	kind expect.Kind
	uses expect.Uses
	// light lists the conditions that need no body, heavy the conditions that need one. The
	// heavy ones are checked for a share of the answers.
	light, heavy []*expect.Condition
	share        float64
	decode       func(message []byte) (json []byte, err error) // nil: bodies are as they are
}

// Kind returns the kind of the wire's answers.
func (w Wire) Kind() expect.Kind {
	if w.IsGRPC() {
		return expect.GRPC
	}
	return expect.HTTP
}

// Expectations compiles the definition's conditions.
func (d *Definition) Expectations() (*Expectations, error) {
	e := &Expectations{kind: d.Wire.Kind(), share: d.ExpectSample}
	if e.share == 0 {
		e.share = 1
	}
	for _, text := range d.Expect {
		c, err := expect.Parse(text, e.kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		e.add(c)
	}
	if e.uses.Body && len(d.Descriptors) > 0 {
		method, err := schema.Load(d.Descriptors, d.Requests[0].Path)
		if err != nil {
			return nil, err
		}
		e.decode = method.Decode
	}
	return e, nil
}

// Readable returns an answer whose body conditions can read: a message of gRPC as JSON.
func (e *Expectations) Readable(seen expect.Answer) (expect.Answer, error) {
	if e.decode == nil || seen.Status != int(codes.OK) {
		return seen, nil
	}
	var err error
	if seen.Body, err = e.decode(seen.Body); err != nil {
		err = fmt.Errorf("read the answer's message: %w", err)
	}
	return seen, err
}

func (e *Expectations) add(c *expect.Condition) {
	e.uses = e.uses.Plus(c.Uses())
	if c.Uses().Body {
		e.heavy = append(e.heavy, c)
	} else {
		e.light = append(e.light, c)
	}
}

// Keep reports whether headers or bodies of answers are looked at.
func (e *Expectations) Keep() bool { return e.uses.Header || e.uses.Body }

// Expect makes the caller check its answers. The seed says which are in the sample.
func (c *Caller) Expect(e *Expectations, seed uint64) {
	c.checker.expected = e
	c.checker.look = expect.NewLook(e.kind)
	c.checker.random = rand.New(rand.NewPCG(seed, 0))
}

// Checking returns the cost of looking at the answers; nil if nobody asked for it.
func (c *Caller) Checking() *record.Checking {
	if c.checker.cost.Answers == 0 {
		return nil
	}
	return &c.checker.cost
}

// checker looks at the answers of one caller. Without expectations it does nothing.
type checker struct {
	expected *Expectations // nil: none
	follower Follower      // nil: no request depends on an answer
	look     *expect.Look
	random   *rand.Rand
	uses     expect.Uses // of the call's answer
	began    int64       // the call, where its latency is looked at
	tookNS   int64
	cost     record.Checking
}

func (c *checker) begin() {
	c.uses = expect.Uses{}
	if c.expected != nil {
		c.uses = c.expected.uses
	}
	if c.follower != nil {
		c.uses = c.uses.Plus(c.follower.Uses())
	}
	if c.uses.Latency {
		c.began = clock.Now()
	}
}

func (c *checker) end() {
	if c.uses.Latency {
		c.tookNS = clock.Now() - c.began
	}
}

// replacesUsual reports whether the user says which status is right.
func (c *checker) replacesUsual() bool { return c.uses.Status }

func (c *checker) check(a *Answer) error {
	e := c.expected
	if e == nil || len(e.light)+len(e.heavy) == 0 && c.follower == nil {
		return nil
	}
	begin := clock.Now()
	seen := a.Seen(time.Duration(c.tookNS))
	c.look.At(seen)
	err := c.all(e.light)
	whole := e.share >= 1 || len(e.heavy) == 0 || c.random.Float64() < e.share
	if err == nil && whole && len(e.heavy) > 0 {
		if seen, err = e.Readable(seen); err == nil {
			c.look.At(seen)
			err = c.all(e.heavy)
		}
	}
	if err == nil && c.follower != nil {
		err = c.follower.Follow(c.look)
	}
	c.cost.Answers++
	if whole {
		c.cost.Whole++
	}
	c.cost.TookNS += clock.Now() - begin
	return err
}

func (c *checker) all(conditions []*expect.Condition) error {
	for _, one := range conditions {
		if err := one.Check(c.look); err != nil {
			return err
		}
	}
	return nil
}
