package service

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// All clients together send each request in turn, and each client sends each request as often as the
// others.
func TestClientsTakeTurns(t *testing.T) {
	for count := 1; count <= 12; count++ {
		for clients := 1; clients <= 12; clients++ {
			d := &Definition{}
			for i := range count {
				d.Requests = append(d.Requests, Request{Path: fmt.Sprint(i)})
			}
			var sources []Source
			turn := new(atomic.Int64)
			for i := range clients {
				sources = append(sources, d.FixedSource(Share{Number: i, Of: clients, Turn: turn}))
			}
			all, own, number := map[string]int{}, map[string]int{}, 0
			for range count * count {
				for i, s := range sources {
					r, err := s.Next()
					if err != nil {
						t.Fatal(err)
					}
					if number < count && r.Path != fmt.Sprint(number) {
						t.Errorf("%d clients, %d requests: call %d sends request %s", clients, count, number, r.Path)
					}
					number++
					all[r.Path]++
					if i == 0 {
						own[r.Path]++
					}
				}
			}
			for path, sent := range all {
				if sent != clients*count || own[path] != count {
					t.Errorf("%d clients, %d requests: request %s was sent %d times, by the first client %d times: want %d and %d", clients, count, path, sent, own[path], clients*count, count)
				}
			}
			if len(all) != count {
				t.Errorf("%d clients send %d of %d requests", clients, len(all), count)
			}
		}
	}
}

// Clients of different speeds send all requests equally often, too: they take a turn when they send.
func TestUnevenClientsTakeTurns(t *testing.T) {
	d := &Definition{Requests: []Request{{Path: "a"}, {Path: "b"}, {Path: "c"}}}
	turn, sent := new(atomic.Int64), map[string]int{}
	fast, slow := d.FixedSource(Share{Number: 0, Of: 2, Turn: turn}), d.FixedSource(Share{Number: 1, Of: 2, Turn: turn})
	for call := range 300 {
		source := fast
		if call%7 == 3 {
			source = slow
		}
		r, err := source.Next()
		if err != nil {
			t.Fatal(err)
		}
		sent[r.Path]++
	}
	if sent["a"] != 100 || sent["b"] != 100 || sent["c"] != 100 {
		t.Errorf("sent %v, want each 100 times", sent)
	}
}
