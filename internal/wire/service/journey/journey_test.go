package journey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/service"
)

const good = `
version: 1
target: http://127.0.0.1:8080
login:
  post: /login
  headers: {X-Who: '{{.Row.name}}'}
  body: '{"user":{{json .Row.name}}}'
  take: {token: json(.token)}
headers: {Authorization: 'Bearer {{.token}}', Accept: text/plain}
rows: [{name: ann}, {name: bob}]
users:
  - name: reader
    weight: 3
    think: 10ms..20ms
    steps:
      - get: /items
        take:
          id: json(.items[0].id)
      - name: one
        get: /items/{{urlquery .id}}
        headers: {Accept: application/json}
        expect: status == 418
        think: 0s
  - name: writer
    steps:
      - post: /items
        body: '{"n":{{.N}},"client":{{.Client}}{{if eq .Client 3}},"last":true{{end}}}'
`

const withCalls = `
version: 1
target: http://127.0.0.1:8080
grpc: grpc://127.0.0.1:50051
proto: shop.proto
users:
  - name: buyer
    steps:
      - get: /items
        take: {id: 'json(.items[0].id)'}
      - name: Buy
        call: shop.v1.Shop/Buy
        headers: {Authorization: Bearer x}
        body: '{"id": {{json .id}}}'
        expect: code == OK and json(.price) > 0
        timeout: 200ms
`

func parsed(t *testing.T, text string) *Script {
	t.Helper()
	s, err := Parse("shop.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// door lets everybody in whose login has a body.
type door struct{ seen []service.Request }

func (d *door) Call(_ context.Context, r *service.Request, a *service.Answer) error {
	d.seen = append(d.seen, *r)
	*a = service.Answer{Status: 200, Body: fmt.Appendf(nil, `{"token":"t%d"}`, len(d.seen))}
	return nil
}

func (*door) Close() error { return nil }

func next(t *testing.T, s *Source) *service.Request {
	t.Helper()
	r, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func follow(s *Source, body string, status int) error {
	look := expect.NewEvaluator()
	look.SetAnswer(expect.Answer{Status: status, Body: []byte(body)})
	return s.Follow(look)
}

func TestAUserLogsInAndTakesValuesAlong(t *testing.T) {
	script, home := parsed(t, good), &door{}
	s := script.Source(User{Client: 1, Clients: 4})
	if err := s.Begin(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	if got := home.seen[0]; string(got.Body) != `{"user":"bob"}` || !slices.Equal(got.Header, []service.Field{{Name: "X-Who", Value: "bob"}}) {
		t.Errorf("the login was %+v with %s", got, got.Body)
	}
	for range 2 {
		list := next(t, s)
		if !slices.Contains(list.Header, service.Field{Name: "Authorization", Value: "Bearer t1"}) || list.Name != "reader: GET /items" {
			t.Errorf("the first step was %+v", list)
		}
		if think := s.Think(); think < 10*time.Millisecond || think > 20*time.Millisecond {
			t.Errorf("it thinks for %v, want 10 to 20 ms", think)
		}
		if err := follow(s, `{"items":[{"id":"a b"}]}`, 200); err != nil || s.RoundEnded() {
			t.Fatal(err, s.RoundEnded())
		}
		one := next(t, s)
		if one.Path != "/items/a+b" || one.Name != "reader: one" || !s.Uses().Status || s.Think() != 0 {
			t.Errorf("the second step was %+v", one)
		}
		if !slices.Contains(one.Header, service.Field{Name: "Accept", Value: "application/json"}) || len(one.Header) != 2 {
			t.Errorf("a step's own field is not in the place of the file's: %+v", one.Header)
		}
		if err := follow(s, "", 418); err != nil || !s.RoundEnded() {
			t.Fatal(err, s.RoundEnded())
		}
	}
}

// After a step that failed, in whatever way, a round begins.
func TestAFailedStepEndsTheRound(t *testing.T) {
	s := parsed(t, good).Source(User{Clients: 1})
	if err := s.Begin(t.Context(), &door{}); err != nil {
		t.Fatal(err)
	}
	next(t, s)
	if got := next(t, s); got.Path != "/items" {
		t.Errorf("after a call that nobody followed: %s, want the first step", got.Path)
	}
	var unmet *expect.UnmetError
	if err := follow(s, `{"items":[]}`, 200); !errors.As(err, &unmet) || unmet.Condition != "json(.items[0].id)" {
		t.Errorf("a value that is not there: %v", err)
	}
	if got := next(t, s); got.Path != "/items" {
		t.Errorf("after a value was not there: %s, want the first step", got.Path)
	}
	if err := follow(s, `{"items":[{"id":1}]}`, 200); err != nil {
		t.Fatal(err)
	}
	next(t, s)
	if err := follow(s, "", 200); err == nil {
		t.Error("an answer that does not meet its condition is taken")
	}
	if got := next(t, s); got.Path != "/items" {
		t.Errorf("after a condition was not met: %s, want the first step", got.Path)
	}
}

func TestUsersAreSharedOutByWeight(t *testing.T) {
	script := parsed(t, good)
	for users, want := range map[int]int{4: 1, 40: 10, 400: 100} {
		writers := 0
		for _, k := range script.KindsOf(users) {
			writers += k
		}
		if writers != want {
			t.Errorf("%d writers of %d users, want %d", writers, users, want)
		}
	}
	if !slices.Equal(script.KindsOf(2), script.KindsOf(9)[:2]) {
		t.Error("the first users are others where there are more")
	}
	name, from := script.UnusedKind(1)
	if name != "writer" || !slices.Contains(script.KindsOf(from), 1) || slices.Contains(script.KindsOf(from-1), 1) {
		t.Errorf("of one user there is no %q, and from %d on: %v", name, from, script.KindsOf(from))
	}
	if name, _ := script.UnusedKind(4); name != "" {
		t.Errorf("of four users none is a %s", name)
	}
}

// A step has the names and functions of `wirelab load -d`.
func TestStepsHaveTheLanguageOfData(t *testing.T) {
	s := parsed(t, `
version: 1
users:
  - name: a
    steps:
      - post: /{{.UUID}}/{{.UUID}}
        body: '{{randomString 8}} {{.Timestamp}} {{printf "%03d" .N}} {{$id := .Client}}{{$id}}'
        take: {id: json(.id), Timestamp: json(.when)}
      - get: /{{.id}}/{{$.id}}/{{.Timestamp}}
`).Source(User{Clients: 1})
	made := next(t, s)
	if !regexp.MustCompile(`^[a-zA-Z0-9]{8} \d{4}-\d\d-\d\dT\S+ 001 0$`).Match(made.Body) {
		t.Errorf("the body is %s", made.Body)
	}
	if parts := strings.Split(made.Path, "/"); len(parts) != 3 || len(parts[1]) != 36 || parts[1] != parts[2] {
		t.Errorf("the UUIDs of one call: %s", made.Path)
	}
	if err := follow(s, `{"id":7,"when":"noon"}`, 200); err != nil {
		t.Fatal(err)
	}
	if made := next(t, s); made.Path != "/7/7/noon" { // a value that was taken hides the name
		t.Errorf("the path is %s", made.Path)
	}
}

// In an open loop rounds have the weights, whoever calls.
func TestKindsAreDrawnByWeight(t *testing.T) {
	s := parsed(t, good).Source(User{Clients: 1, Drawn: true, Seed: 3})
	if err := s.Begin(t.Context(), &door{}); err != nil {
		t.Fatal(err)
	}
	const rounds = 4000
	writers := 0
	for range rounds {
		if next(t, s).Method == http.MethodPost {
			writers++
		}
	}
	if share := float64(writers) / rounds; share < 0.22 || share > 0.28 {
		t.Errorf("%g of the rounds are of writers, want a quarter", share)
	}
}

// The numbers of calls are no two clients' alike.
func TestCallsAreNumberedOverAllClients(t *testing.T) {
	script := parsed(t, good)
	seen := map[string]bool{}
	for client := range 4 {
		s := script.Source(User{Client: client, Clients: 4, Kind: 1})
		if err := s.Begin(t.Context(), &door{}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			seen[string(next(t, s).Body)] = true
		}
	}
	if len(seen) != 20 || !seen[`{"n":20,"client":3,"last":true}`] || !seen[`{"n":1,"client":0}`] {
		t.Errorf("%d different bodies, want 20: %v", len(seen), seen)
	}
}

func TestWhatIsTakenCannotBreakARequest(t *testing.T) {
	s := parsed(t, strings.Replace(good, "{{urlquery .id}}", "{{.id}}", 1)).Source(User{Clients: 1})
	if err := s.Begin(t.Context(), &door{}); err != nil {
		t.Fatal(err)
	}
	next(t, s)
	if err := follow(s, `{"items":[{"id":"a HTTP/1.1\r\nX: y"}]}`, 200); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err == nil || !strings.Contains(err.Error(), "urlquery") {
		t.Errorf("a path with a line break: %v", err)
	}
}

// What is wrong has a place in the file, and words that say what to do.
func TestMistakesHaveAPlace(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{"think: 10ms..20ms", "think: 20ms..10ms", "14:12: think: found 20ms..10ms"},
		{"think: 10ms..20ms", "think: soon", "14:12: think: "},
		{"    weight: 3", "    wieght: 3", `13:5: unknown key "wieght"; did you mean weight?`},
		{"weight: 3", "weight: 0", "13:13: found 0: want 1 to 1000"},
		{"{{urlquery .id}}", "{{urlquery .ids}}", "20:14: get, line 1, column 19: there is no .ids: did you mean id?; a step can use only values taken by earlier steps"},
		{"{{urlquery .id}}", "{{range .id}}{{end}}", "20:14: get, line 1, column 16: {{range}} is not supported: use only {{if}}"},
		{"{{urlquery .id}}", "{{env .id}}", "20:14: get, line 1, column 10: there is no function env: want one of"},
		{"{{urlquery .id}}", `{{.UUID.x}}`, "20:14: get, line 1, column 15: .UUID is a single value"},
		{"get: /items\n", "get: items\n", `16:14: get: found "items": want a path`},
		{"Bearer {{.token}}", "Bearer {{.tokn}}", "9:26: Authorization, line 1, column 10: there is no .tokn: did you mean token?"},
		{"{{json .Row.name}}", "{{json .Row.nam}}", "7:9: body, line 1, column 20: the data has no column \"nam\": did you mean name?"},
		{"status == 418", "status = 418", "22:17: expect: at character 8 of the expression: found =: "},
		{"json(.items[0].id)", "json(.items[x].id)", "18:15: take id: at character 6 of the expression"},
		{"          id: json", "          N: json", "18:14: take N: the name is reserved"},
		{"rows: [{name: ann}, {name: bob}]", "rows: [{name: ann}, {mane: bob}]", "10:21: found a row with mane: want name"},
		{"name: writer", "name: reader", "24:11: two kinds of users are named reader"},
		{"      - post: /items", "      - post: /items\n        get: /x", "26:9: found 2 methods"},
		{"version: 1", "version: 7", "2:10: version: "},
	} {
		_, err := Parse("shop.yaml", []byte(strings.Replace(good, test.old, test.new, 1)))
		if err == nil || !strings.Contains(err.Error(), "shop.yaml:"+test.want) {
			t.Errorf("%s: %v, want %s", test.new, err, test.want)
		}
	}
}

// No file makes the parser panic; of what it takes every user can make requests.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(withCalls))
	f.Add([]byte("version: 1\nusers: [{name: a, steps: [{get: /, think: 1s..2s, take: {x: status}}, {put: '/{{.x}}'}]}]"))
	f.Add([]byte("version: 1\nusers: [{name: a, steps: [{get: '/{{if .N}}{{json .N}}{{end}}'}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		script, err := Parse("fuzz.yaml", data)
		if err != nil {
			if located := (*scenario.Error)(nil); errors.As(err, &located) && (located.Line < 1 || located.Column < 1 || located.Text == "") {
				t.Errorf("no place or no words: %+v", located)
			}
			return
		}
		for kind := range script.Kinds() {
			s := script.Source(User{Clients: 1, Kind: kind})
			_ = s.Begin(t.Context(), &door{})
			for range 3 {
				if _, err := s.Next(); err == nil {
					_ = follow(s, `{"token":1}`, 200)
				}
				if s.Think() < 0 {
					t.Error("a pause below nothing")
				}
			}
		}
	})
}

func TestStepsOfGRPC(t *testing.T) {
	s := parsed(t, withCalls)
	if got := s.Methods(); !slices.Equal(got, []string{"/shop.v1.Shop/Buy"}) || !s.UsesHTTP() || s.GRPC != "grpc://127.0.0.1:50051" || s.Proto != "shop.proto" {
		t.Errorf("methods %v, HTTP %v, gRPC at %q, described by %q", got, s.UsesHTTP(), s.GRPC, s.Proto)
	}
	for old, c := range map[string]struct{ wrong, says string }{
		"call: shop.v1.Shop/Buy": {"call: Buy", `:12:15: found "Buy": want pkg.Service/Method`},
		"code == OK":             {"status == OK and coed == OK", "coed"},
		"timeout: 200ms":         {"timeout: -1s", "want more than 0s"},
	} {
		text := strings.Replace(withCalls, old, c.wrong, 1)
		if _, err := Parse("shop.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.wrong, err, c.says)
		}
	}
}
