package schema

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// ledger is a method of testdata/ledger.proto.
func ledger(t testing.TB, call string) *Method {
	t.Helper()
	m, err := Find(t.Context(), Source{Proto: "testdata/ledger.proto", Call: call})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// descriptors are all files of testdata.
func descriptors(t testing.TB) *descriptorpb.FileDescriptorSet {
	t.Helper()
	set, err := compile(t.Context(), Source{Proto: "testdata/ledger.proto"})
	if err != nil {
		t.Fatal(err)
	}
	extra, err := compile(t.Context(), Source{Proto: "testdata/extra.proto"})
	if err != nil {
		t.Fatal(err)
	}
	set.File = append(set.File, extra.File...)
	return set
}

func linked(t testing.TB, set *descriptorpb.FileDescriptorSet) *protoregistry.Files {
	t.Helper()
	files, err := linkFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestAProtoIsFoundByEachOfItsNames(t *testing.T) {
	folder, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Source{
		{Proto: "testdata/shop.proto"},
		{Proto: "shop.proto", ImportPaths: []string{"testdata"}},
		{Proto: "testdata/shop.proto", ImportPaths: []string{"testdata"}},
		{Proto: "testdata/shop.proto", ImportPaths: []string{"elsewhere"}},
		{Proto: filepath.Join(folder, "shop.proto"), ImportPaths: []string{folder}},
	} {
		for _, call := range []string{"shop.v1.Shop/Watch", "/shop.v1.Shop/Watch", "shop.v1.Shop.Watch"} {
			s.Call = call
			m, err := Find(t.Context(), s)
			if err != nil {
				t.Errorf("%+v: %v", s, err)
			} else if m.Path != "/shop.v1.Shop/Watch" || m.Stream != (Stream{Server: true}) {
				t.Errorf("%+v: %s, %+v", s, m.Path, m.Stream)
			}
		}
	}
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func TestDescriptorFilesOfAllForms(t *testing.T) {
	set := descriptors(t)
	binary := must(proto.Marshal(set))(t)
	text := must(protojson.Marshal(set))(t)
	// What a Buf image has beside the descriptors.
	image := bytes.Replace(text, []byte(`"name":`), []byte(`"bufExtension": {"isImport": false}, "name":`), 1)
	if bytes.Equal(image, text) {
		image = bytes.Replace(text, []byte(`"name": `), []byte(`"bufExtension": {"isImport": false}, "name": `), 1)
	}
	for name, data := range map[string][]byte{
		"all.binpb": binary, "all.json": text, "image.json": image,
		"all.binpb.gz": zipped(t, binary), "all.json.gz": zipped(t, text), "named.wrongly": zipped(t, binary),
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := Find(t.Context(), Source{Protoset: file, Call: "ledger.v1.Ledger/Book"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// A type that no service mentions is known all the same.
		again := must(Load(must(m.Files())(t), m.Path))(t)
		for _, m := range []*Method{m, again} {
			if _, err := m.Encode([]byte(`{"cause": {"@type": "t/extra.v1.Note", "text": "why"}}`)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestWrongDescriptorFiles(t *testing.T) {
	set := descriptors(t)
	for i, f := range set.File {
		if f.GetName() == "shop.proto" {
			set.File = append(set.File[:i:i], set.File[i+1:]...)
			break
		}
	}
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"empty":   {nil, "no .proto files"},
		"text":    {[]byte("syntax = \"proto3\";"), "want a descriptor file"},
		"json":    {[]byte("{"), "want a descriptor file"},
		"half.gz": {zipped(t, []byte("x"))[:12], "EOF"},
		"imports": {must(proto.Marshal(set))(t), "imports shop.proto, which is missing"},
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Find(t.Context(), Source{Protoset: file, Call: "a/b"}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestLongDescriptorFilesAreRefused(t *testing.T) {
	data := must(proto.Marshal(descriptors(t)))(t)
	long := int64(len(data))
	for _, file := range [][]byte{data, zipped(t, data)} {
		if _, err := parseImage(bytes.NewReader(file), long); err != nil {
			t.Error(err)
		}
		if _, err := parseImage(bytes.NewReader(file), long-1); err == nil {
			t.Error("it was read whole")
		}
	}
}

func TestWrongCallsAreExplained(t *testing.T) {
	for call, says := range map[string]string{
		"":                        "--call:\n  ledger.v1.Ledger/Book(ledger.v1.Entry) returns (",
		"ledger.v1.Ledger/Bok":    "did you mean ledger.v1.Ledger/Book?",
		"Ledger/Book":             "did you mean ledger.v1.Ledger/Book?",
		"v1.Ledger.Book":          "did you mean ledger.v1.Ledger/Book?",
		"ledger.v2.Ledger/Book":   "did you mean ledger.v1.Ledger/Book?",
		"ledger.v1.Ledger/Remove": "ledger.v1.Ledger has no method Remove: want one of ledger.v1.Ledger/Book, ledger.v1.Ledger/BookAll",
		"nothing.like/This":       "want one of",
		"ledger.v1.Ledger/":       "names no method",
		"nonsense":                "want one of",
	} {
		if _, err := Find(t.Context(), Source{Proto: "testdata/ledger.proto", Call: call}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", call, err, says)
		}
	}
	for says, s := range map[string]Source{
		"name the .proto":         {},
		"define no service":       {Proto: "testdata/money.proto", Call: "a/b"},
		"none.proto":              {Proto: "testdata/none.proto", Call: "a/b"},
		"--import-path":           {Proto: "none.proto", ImportPaths: []string{"testdata"}, Call: "a/b"},
		"no such file":            {Protoset: "testdata/none.binpb", Call: "a/b"},
		"testdata/order.bad:1:1:": {Proto: "testdata/order.bad", Call: "a/b"},
	} {
		if strings.HasSuffix(s.Proto, ".bad") {
			s.Proto = filepath.Join(t.TempDir(), "order.bad")
			if err := os.WriteFile(s.Proto, []byte("service"), 0o600); err != nil {
				t.Fatal(err)
			}
			says = "order.bad:1:"
		}
		if _, err := Find(t.Context(), s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", s, err, says)
		}
	}
}

func TestFilesAreEnoughForLoad(t *testing.T) {
	for _, call := range []string{"ledger.v1.Ledger/Book", "ledger.v1.Ledger/Values"} {
		m := ledger(t, call)
		set := must(m.Files())(t)
		again := must(Load(set, m.Path))(t)
		if again.Path != m.Path || again.Describe() != m.Describe() {
			t.Errorf("%s became %s", m.Describe(), again.Describe())
		}
		if !bytes.Equal(set, must(again.Files())(t)) {
			t.Errorf("%s: the files of the files differ", call)
		}
	}
	if _, err := Load([]byte("nonsense"), "a/b"); err == nil {
		t.Error("nonsense was loaded")
	}
}

func TestTheMethodIsDescribed(t *testing.T) {
	text := ledger(t, "ledger.v1.Ledger/BookAll").Describe()
	for _, want := range []string{
		"ledger.v1.Ledger/BookAll(stream ledger.v1.Entry) returns (ledger.v1.Entry)",
		`"side": ledger.v1.Side`, `"lines": map<string, shop.v1.Line>`, `"marks": repeated int32`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %s", text, want)
		}
	}
}

func FuzzImage(f *testing.F) {
	set, err := compile(f.Context(), Source{Proto: "testdata/money.proto"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(must(proto.Marshal(set))(f))
	f.Add(must(protojson.Marshal(set))(f))
	f.Add([]byte("{}"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		set, err := parseImage(bytes.NewReader(data), 1<<20)
		if err != nil {
			return
		}
		if files, err := linkFiles(set); err == nil {
			_, _ = findMethod(files, "a/b")
		}
	})
}
