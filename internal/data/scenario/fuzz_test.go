package scenario

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"testing"

	"wirelab.dev/studies"
)

// What Parse takes can be planned without two cells of one name, and comes back
// the same from JSON; what it refuses has a place in the file.
func FuzzParse(f *testing.F) {
	files, err := fs.Glob(studies.FS, "*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no studies", err)
	}
	for _, name := range files {
		data, err := fs.ReadFile(studies.FS, name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(Starter())
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz.yaml", data, words)
		if err != nil {
			var located *Error
			if errors.As(err, &located) && (located.Line < 1 || located.Column < 1 || located.Text == "") {
				t.Errorf("no place or no words: %+v", located)
			}
			return
		}
		keys := map[string]bool{}
		for _, c := range s.cells() {
			if keys[c.key()] {
				t.Errorf("two cells %s", c.key())
			}
			keys[c.key()] = true
		}
		if len(s.Plan()) < len(keys) || len(keys) == 0 {
			t.Errorf("%d trials of %d cells", len(s.Plan()), len(keys))
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("fuzz.json", text, words)
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		if !reflect.DeepEqual(s, again) {
			t.Errorf("came back as\n%+v\nwant\n%+v", again, s)
		}
	})
}

func FuzzParseVariants(f *testing.F) {
	f.Add("tcp")
	f.Add("tcp:buffers=pooled,inflight=50,rest, grpc:inflight=2")
	f.Fuzz(func(t *testing.T, text string) {
		variants, err := ParseVariants(text)
		if err != nil {
			return
		}
		for _, v := range variants {
			again, err := ParseVariant(v.String())
			if err != nil || !reflect.DeepEqual(v, again) {
				t.Errorf("%s came back as %s, %v", v, again, err)
			}
		}
	})
}

func FuzzParseConnection(f *testing.F) {
	for _, text := range []string{"shared", "per-worker", "pool", "pool:4"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConnection(text)
		if err != nil {
			return
		}
		if again, err := ParseConnection(c.String()); err != nil || again != c {
			t.Errorf("%s came back as %s, %v", c, again, err)
		}
		if c.ConnectionCount(7) < 1 {
			t.Errorf("%s wants %d connections for 7 clients", c, c.ConnectionCount(7))
		}
	})
}

func FuzzParsePayload(f *testing.F) {
	for _, text := range []string{"64", "512B", "4 KiB", "64KB", "1MiB", "64/4KiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		payload, err := ParsePayload(text)
		if err != nil {
			return
		}
		if again, err := ParsePayload(payload.String()); err != nil || again != payload || payload.Request < 0 || payload.Response < 0 {
			t.Errorf("%q: %s came back as %s, %v", text, payload, again, err)
		}
	})
}
