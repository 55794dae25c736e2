package journey

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"wirelab.dev/internal/data/scenario"
)

// A file holds a journey as it is written.
type file struct {
	Version int                 `json:"version"`
	Target  string              `json:"target"` // as of `wirelab load`, without a path
	Login   step                `json:"login"`  // once a user, before the load, not measured
	Headers map[string]string   `json:"headers"`
	Rows    []map[string]string `json:"rows"` // data: each user has one of them
	Users   []user              `json:"users"`
}

// A user is a kind of users.
type user struct {
	Name   string `json:"name"`
	Weight int    `json:"weight"` // its share of the users, beside the others' weights; 1 if left out
	Think  Think  `json:"think"`  // after each step
	Steps  []step `json:"steps"`
}

// A step is one call. Exactly one of the methods has a path.
type step struct {
	Name    string            `json:"name"` // in reports; the method and the path if left out
	Get     string            `json:"get"`
	Post    string            `json:"post"`
	Put     string            `json:"put"`
	Patch   string            `json:"patch"`
	Delete  string            `json:"delete"`
	Head    string            `json:"head"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Expect  string            `json:"expect"`
	Take    map[string]string `json:"take"` // names of values, and where in the answer they are
	Think   Think             `json:"think"`
}

// methods returns the paths of a step by their methods.
func (s *step) methods() map[string]string {
	given := map[string]string{}
	for method, path := range map[string]string{
		http.MethodGet: s.Get, http.MethodPost: s.Post, http.MethodPut: s.Put,
		http.MethodPatch: s.Patch, http.MethodDelete: s.Delete, http.MethodHead: s.Head,
	} {
		if path != "" {
			given[method] = path
		}
	}
	return given
}

// A Think is a time, or a range of times.
type Think struct{ least, most time.Duration }

// longestThink limits the time. A longer one is surely a mistake.
const longestThink = time.Hour

// UnmarshalText reads 100ms or 50ms..200ms.
func (t *Think) UnmarshalText(text []byte) error {
	least, most, isRange := strings.Cut(string(text), "..")
	if !isRange {
		most = least
	}
	for _, end := range []struct {
		text string
		into *time.Duration
	}{{least, &t.least}, {most, &t.most}} {
		var d scenario.Duration
		if err := d.UnmarshalText([]byte(strings.TrimSpace(end.text))); err != nil {
			return fmt.Errorf("%w; two times with .. between them are the least and the most", err)
		}
		*end.into = time.Duration(d)
	}
	if t.least < 0 || t.least > t.most || t.most > longestThink {
		return fmt.Errorf("found %s: want a time, or two in order, up to %v", text, longestThink)
	}
	return nil
}

func (t Think) pick(random *rand.Rand) time.Duration {
	if t.most == t.least {
		return t.least
	}
	return t.least + time.Duration(random.Int64N(int64(t.most-t.least)+1))
}
