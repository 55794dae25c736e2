package route

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/apipb"

	"wirelab.dev/internal/wire/route/routepb"
)

// request is any message with text fields and others.
var request = (&apipb.Method{}).ProtoReflect().Descriptor()

func TestRead(t *testing.T) {
	r, err := parse(&routepb.Route{Verb: "POST", Path: "/a/{name}/b", Body: "*", Success: 201}, request)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Path) != 3 || r.Path[0].Text != "a" || r.Path[1].In.Name() != "name" || r.Path[2].Text != "b" || !r.InBody || r.Success != 201 {
		t.Errorf("read %+v", r)
	}
	if r, err := parse(&routepb.Route{Verb: "GET", Path: "/"}, request); err != nil || r.Success != 200 || r.InBody {
		t.Errorf("read %+v, %v", r, err)
	}
	for says, wrong := range map[string]*routepb.Route{
		`verb is "FETCH"`:         {Verb: "FETCH", Path: "/a"},
		`verb is ""`:              {Path: "/a"},
		"begins with a":           {Verb: "GET", Path: "a"},
		`body is "name"`:          {Verb: "POST", Path: "/a", Body: "name"},
		"GET request has no body": {Verb: "GET", Path: "/a", Body: "*"},
		"want 200 to 299":         {Verb: "GET", Path: "/a", Success: 404},
		"{nobody} is no":          {Verb: "GET", Path: "/a/{nobody}"},
		"{name is no":             {Verb: "GET", Path: "/a/{name"},
		"{options} is no":         {Verb: "GET", Path: "/a/{options}"},
		"{syntax} is no":          {Verb: "GET", Path: "/a/{syntax}"},
	} {
		if r, err := parse(wrong, request); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v was read as %+v, %v; want %q", wrong, r, err, says)
		}
	}
}

func TestOperationsWithoutARouteHaveTheShortOne(t *testing.T) {
	for method, want := range map[string]string{
		"/nobody.v1.Nothing/Nothing":     "/nothing",
		"/nobody.v1.Nothing/GetHTTPInfo": "/get-http-info",
		"/nobody.v1.Nothing/GetUser":     "/get-user",
		"/google.protobuf.Method/name":   "/name",
		"nonsense":                       "/",
		"":                               "/",
	} {
		r, err := ForMethod(method)
		if got := r.Template("{", "}"); err != nil || got != want || r.Verb != "POST" || !r.InBody {
			t.Errorf("%q is called by %s %s, %v; want %s", method, r.Verb, got, err, want)
		}
	}
}

func TestShortPath(t *testing.T) {
	for operation, want := range map[string]string{
		"Echo":        "/echo",
		"GetUser":     "/get-user",
		"GetHTTPInfo": "/get-http-info",
		"EchoV2":      "/echo-v2",
		"V2Echo":      "/v2-echo",
		"ABC":         "/abc",
		"get_user":    "/get_user",
		"x":           "/x",
	} {
		if got := ShortPath(operation); got != want {
			t.Errorf("%s is at %s, want %s", operation, got, want)
		}
	}
}
