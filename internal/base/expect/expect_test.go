package expect

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

var answer = Answer{
	Status: 200, SizeBytes: 90, Latency: 15 * time.Millisecond,
	Header: http.Header{"Content-Type": {"application/json"}, "x-trailer": {"end"}},
	Body:   []byte(`{"ok":true,"n":12345678901234567,"name":"pear","items":[{"id":"a","price":3.5},{"id":"b","price":4}],"a b":1,"none":null}`),
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]bool{
		`status == 200`:            true,
		`status in 200..299`:       true,
		`status >= 400`:            false,
		`size > 10 and size < 100`: true,
		`latency < 20ms`:           true,
		`latency < 1.5ms`:          false,
		`latency <= 0.015s and latency >= 1m30s - 90s`: true,
		`json(.ok)==true`:                                   true,
		`json(".ok") == true`:                               true,
		`json(.ok)`:                                         true,
		`json( .items[1].id ) == "b"`:                       true,
		`json(.items[0].price) > 3`:                         true,
		`json(.n) == 12345678901234567`:                     true,
		`json(["a b"]) == 1`:                                true,
		`json(.["a b"]) == 1 or true`:                       true,
		`json(.missing.deep[3]) == nil`:                     true,
		`json(.items[9]) == nil`:                            true,
		`all(json(.items), .price > 3)`:                     true,
		`len(json(.items)) == 3`:                            false,
		`json(.).name matches "^p.*r$"`:                     true,
		`body contains "pear"`:                              true,
		`body contains "json(.ok) 20ms"`:                    false,
		`header("content-type") startsWith "application/j"`: true,
		`header("X-Trailer") == "end"`:                      true,
		`header("absent") == ""`:                            true,
		`not (status == 500)`:                               true,
	} {
		c, err := Parse(text, HTTP)
		if strings.HasPrefix(text, `json(.[`) {
			if err == nil {
				t.Errorf("%s: a path with a dot before a bracket is read", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		look := NewEvaluator()
		look.SetAnswer(answer)
		if met := c.Check(look) == nil; met != want {
			t.Errorf("%s: %v, want %v", text, met, want)
		}
	}
}

func TestCodesHaveNames(t *testing.T) {
	for text, want := range map[string]bool{
		`code == NotFound`: true, `code == NOT_FOUND`: true, `code == OK`: false, `status == 5`: true, `code in [OK, NotFound]`: true,
	} {
		c, err := Parse(text, GRPC)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		look := NewEvaluator()
		look.SetAnswer(Answer{Kind: GRPC, Status: 5})
		if met := c.Check(look) == nil; met != want || !c.Uses().Status {
			t.Errorf("%s: %v, want %v", text, met, want)
		}
	}
}

// What does not meet a condition is told by what the condition looks at.
func TestWhatWasFound(t *testing.T) {
	for text, want := range map[string]string{
		`status == 500 or latency > 1s`:         "status 200, latency 15ms",
		`json(.ok) == false`:                    "json(.ok) true",
		`json(.missing) > 3`:                    "json(.missing) nothing (invalid operation: <nil> > int)",
		`header("Content-Type") == "text/html"`: `header("Content-Type") "application/json"`,
		`json(.items[0]) == 3 and size == 1`:    `json(.items[0]) {"id":"a","price":3.5}`,
	} {
		c, err := Parse(text, HTTP)
		if err != nil {
			t.Fatal(err)
		}
		look := NewEvaluator()
		look.SetAnswer(answer)
		unmet := c.Check(look)
		if unmet == nil || !strings.Contains(unmet.Error(), want) {
			t.Errorf("%s: %v, want %s", text, unmet, want)
		}
	}
	c, _ := Parse("json(.ok)", HTTP)
	look := NewEvaluator()
	for body, want := range map[string]string{"": "empty", "<html>": "not JSON", `{} {}`: "more text follows"} {
		look.SetAnswer(Answer{Body: []byte(body)})
		if unmet := c.Check(look); unmet == nil || !strings.Contains(unmet.Error(), want) {
			t.Errorf("of the body %q: %v, want %s", body, unmet, want)
		}
	}
}

// A mistake is shown where its user made it, also behind what was rewritten.
func TestMistakesHaveAPlace(t *testing.T) {
	for text, want := range map[string]struct {
		column int
		reason string
	}{
		`status = 200`:                      {8, "=="},
		`latency < 20ms and statis == 200`:  {20, "unknown name statis: want status, code"},
		`json(.ok) and statis == 200`:       {15, "unknown name statis"},
		`latency < 20`:                      {9, "a duration, as in 20ms"},
		`code == OK`:                        {1, "for gRPC"},
		`json(status)`:                      {6, "takes a path"},
		`json(.a[x])`:                       {6, "the path"},
		`json("a")`:                         {6, "the path"},
		`status ==`:                         {9, "expression is incomplete"},
		`body matches "("`:                  {6, "missing closing"},
		`status`:                            {1, "expected bool"},
		`env("HOME") == "x"`:                {1, "unknown name env"},
		`json(.x) == 20ms and fromJSON("")`: {22, "unknown name fromJSON"},
	} {
		_, err := Parse(text, HTTP)
		var mistake *Mistake
		if !errors.As(err, &mistake) {
			t.Errorf("%s: %v, want a mistake", text, err)
			continue
		}
		if mistake.Column != want.column || !strings.Contains(mistake.Reason, want.reason) {
			t.Errorf("%s: column %d, %s: want %d, %s", text, mistake.Column, mistake.Reason, want.column, want.reason)
		}
	}
}

func TestValuesAreTaken(t *testing.T) {
	look := NewEvaluator()
	look.SetAnswer(answer)
	for text, want := range map[string]any{`json(.items[0].id)`: "a", `json(.n)`: 12345678901234567, `header("Content-Type")`: "application/json", `status`: 200} {
		v, err := ParseValue(text, HTTP)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.Of(look); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	v, err := ParseValue("json(.none)", HTTP)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Of(look); err == nil || !strings.Contains(err.Error(), "json(.none) nothing") {
		t.Errorf("nothing was taken for a value: %v", err)
	}
}

func TestUses(t *testing.T) {
	for text, want := range map[string]Uses{
		"size > 3": {}, "latency < 1s": {Latency: true}, "json(.a) == 1 and status == 200": {Body: true, Status: true},
		`header("a") == "b"`: {Header: true}, `body == ""`: {Body: true},
	} {
		c, err := Parse(text, HTTP)
		if err != nil || c.Uses() != want {
			t.Errorf("%s: %+v, %v", text, c.Uses(), err)
		}
	}
}

// No text makes the parser panic, and what it reads can be checked.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`status == 200`, `json(.a[0]["b"]) == 1m3s`, `latency < 20ms`, "json(", `json(.a`, `"`, "1.5.6ms", `json(["a]`, "µs", "3µs<latency"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text, HTTP)
		if err != nil {
			if m := (*Mistake)(nil); errors.As(err, &m) && (m.Column < 1 || m.Column > len([]rune(text))+1) {
				t.Errorf("%q: column %d", text, m.Column)
			}
			return
		}
		look := NewEvaluator()
		look.SetAnswer(answer)
		_ = c.Check(look)
	})
}

func BenchmarkCheck(b *testing.B) {
	for _, text := range []string{"status == 200", "latency < 20ms", "json(.ok) == true"} {
		b.Run(text, func(b *testing.B) {
			c, err := Parse(text, HTTP)
			if err != nil {
				b.Fatal(err)
			}
			look := NewEvaluator()
			for b.Loop() {
				look.SetAnswer(answer)
				if err := c.Check(look); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
