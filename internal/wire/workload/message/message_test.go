package message

import (
	"os"
	"strings"
	"testing"

	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/workloadtest"
)

func order(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/order.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// parameters returns the parameters of the definition that s compiles to.
func parameters(t *testing.T, s Source) workload.Parameters {
	t.Helper()
	definition, err := Compile(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := SizesOf(definition)
	if err != nil {
		t.Fatal(err)
	}
	return workload.Parameters{RequestBytes: sizes.Request, ResponseBytes: sizes.Response, Definition: definition}
}

func TestMessagesComeBack(t *testing.T) {
	for name, s := range map[string]Source{
		"an echo":          {Call: "shop.v1.Shop/Echo", Request: order(t)},
		"a given response": {Call: "shop.v1.Shop/PlaceOrder", Request: order(t), Response: []byte(`{"orderId": "7", "total": {"cents": "12"}}`)},
		"an empty one":     {Call: "/shop.v1.Shop/PlaceOrder", Request: order(t)},
		"nothing at all":   {Call: "shop.v1.Shop/Echo"},
	} {
		t.Run(name, func(t *testing.T) {
			s.Proto = "../../schema/testdata/shop.proto"
			p := parameters(t, s)
			caller := Workload{}.NewCaller(workloadtest.Connect(t, Workload{}, p), workload.Job{Parameters: p})
			for range 3 {
				if err := caller.Call(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := caller.(interface{ Check() error }).Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A server with another response must be found out.
func TestAWrongAnswerIsNoticed(t *testing.T) {
	source := Source{Proto: "../../schema/testdata/shop.proto", Call: "shop.v1.Shop/PlaceOrder", Request: order(t), Response: []byte(`{"orderId": "7"}`)}
	want := parameters(t, source)
	source.Response = []byte(`{"orderId": "8"}`)
	caller := Workload{}.NewCaller(workloadtest.Connect(t, Workload{}, parameters(t, source)), workload.Job{Parameters: want})
	if err := caller.Call(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := caller.(interface{ Check() error }).Check(); err == nil {
		t.Error("the answer of another server was taken")
	}
}

func TestSizes(t *testing.T) {
	p := parameters(t, Source{Proto: "../../schema/testdata/shop.proto", Call: "shop.v1.Shop/Echo", Request: order(t)})
	s, err := SizesOf(p.Definition)
	if err != nil {
		t.Fatal(err)
	}
	if s.Request != s.Response || s.RequestJSON < 2*s.Request || s.RequestGzip == 0 {
		t.Errorf("%+v", s)
	}
	wrong := p
	wrong.RequestBytes++
	if err := (Workload{}).Check(wrong); err == nil {
		t.Error("sizes that are not the messages' were taken")
	}
}

func TestWrongSourcesAreExplained(t *testing.T) {
	const shop = "../../schema/testdata/shop.proto"
	for _, c := range []struct {
		source Source
		says   string
	}{
		{Source{Proto: "testdata/none.proto", Call: "a/b"}, "none.proto"},
		{Source{Proto: shop, Call: "shop.v1.Shop/PlaceOdrer"}, "did you mean shop.v1.Shop/PlaceOrder?"},
		{Source{Proto: shop, Call: "shop.v1.Shop/Watch"}, "is a stream"},
		{Source{Proto: "../../schema/testdata/money.proto", Call: "a/b"}, "no service"},
		{Source{Proto: shop, Call: "shop.v1.Shop/Echo", Request: []byte("{id: 1}")}, "the request is not JSON"},
		{Source{Proto: shop, Call: "shop.v1.Shop/Echo", Request: []byte(`{"idd": "1"}`)}, "idd"},
		{Source{Proto: shop, Call: "shop.v1.Shop/PlaceOrder", Response: []byte(`{"total": 1}`)}, "the response, a shop.v1.Receipt"},
		{Source{Proto: "shop.proto", ImportPaths: []string{"elsewhere"}, Call: "a/b"}, "shop.proto"},
	} {
		if _, err := Compile(t.Context(), c.source); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want an error that says %q", c.source, err, c.says)
		}
	}
	if err := (Workload{}).Check(workload.Parameters{RequestBytes: 4}); err == nil {
		t.Error("a message without a definition was taken")
	}
	if err := (Workload{}).Check(workload.Parameters{Definition: "{"}); err == nil {
		t.Error("a broken definition was taken")
	}
}

func FuzzDefinition(f *testing.F) {
	definition, err := Compile(f.Context(), Source{Proto: "../../schema/testdata/shop.proto", Call: "shop.v1.Shop/Echo", Request: []byte(`{"id": "1"}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(definition)
	f.Add(`{"descriptors":"","call":"a/b"}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parse(text)
		if err == nil && (m.request == nil || m.response == nil) {
			t.Error("a definition without messages")
		}
	})
}
