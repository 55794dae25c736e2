package scenario

import (
	_ "embed" // embeds the starter file
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"wirelab.dev/internal/data/claim"
)

// A Vocabulary checks the names that a scenario uses: stacks, workloads and columns.
type Vocabulary struct {
	// CheckVariant checks that a part can measure a variant. The variant must exist, have the
	// connection mode, carry the workload's calls, and be able to make the load.
	CheckVariant func(Variant, Part) error
	// Secure returns the variant with TLS, or the variant itself if TLS cannot be chosen.
	Secure func(Variant) Variant
	// CheckWorkload checks that a workload exists.
	CheckWorkload func(workload string) error
	// Sized reports whether a workload gets its payload sizes from the scenario.
	Sized func(workload string) bool
	// CheckPayload checks that a part's workload supports payloads of this size.
	CheckPayload func(Part, Payload) error
	// Published returns the figures of a published study. The name is a study's name or a CSV file.
	Published func(name string) (*claim.PublishedTable, error)
	// CheckColumn checks that a scenario's table supports a column.
	CheckColumn func(name string) error
}

// A file holds a scenario in the form of its file.
type file struct {
	Scenario
	// The defaults of all parts. They have the keys of a part. If a part has a key itself, its
	// value replaces the default completely.
	Defaults Part `json:"defaults"`
}

// builtInDefaults holds the values of keys that a file leaves out, in the form of a file.
const builtInDefaults = `
seed: 1
quick: {requests: 0.1, max-clients: 100, repeats: 1}
defaults:
  workload: echo
  load: {model: closed, requests: 1000}
  warm-up: {at-least: 100ms, at-most: 3s}
  repeats: 1
`

// Parse reads and checks a scenario file. Its error is an *Error with the position of the mistake
// and the given file name.
func Parse(name string, data []byte, words Vocabulary) (*Scenario, error) {
	d, err := ReadDocument(name, data)
	if err != nil {
		return nil, err
	}
	s, p := scenarioOf(d.tree, words)
	if p != nil {
		return nil, d.source.locate(p)
	}
	return s, nil
}

// scenarioOf decodes the tree twice. The first time, it decodes the tree as written, which also
// checks defaults that no part uses. The second time, each part contains the defaults, so that
// every value has a position.
func scenarioOf(tree *ast.MappingNode, words Vocabulary) (*Scenario, *problem) {
	var written, full file
	if p := decode(tree, reflect.ValueOf(&written).Elem()); p != nil {
		return nil, p
	}
	inheritDefaults(tree)
	if p := resolveNetworks(tree); p != nil {
		return nil, p
	}
	if p := decode(tree, reflect.ValueOf(&full).Elem()); p != nil {
		return nil, p
	}
	s := &full.Scenario
	for i := range s.Parts {
		part := &s.Parts[i]
		part.Load.SetDefaults()
		if w, err := ParseWorkload(part.Workload); err == nil {
			part.Workload = w.String() // one text for all spellings
		}
		if len(part.Sizes) == 0 && !words.Sized(part.Workload) {
			part.Sizes = []Payload{{}}
		}
		for j, v := range part.Stacks {
			if part.TLS {
				part.Stacks[j] = words.Secure(v)
			}
		}
		part.Levers.setDefault(part.Stacks)
	}
	c := checker{tree: tree, words: words}
	return s, c.scenario(s)
}

// A Document is a YAML file that is not a scenario. It is read with the same strict rules.
type Document struct {
	source source
	tree   *ast.MappingNode
}

const maxFileBytes = 64 << 10

// ReadDocument reads a mapping of plain values. It checks the version first, because a newer file
// may have unknown keys. An error with a position is an [*Error].
func ReadDocument(name string, data []byte) (*Document, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: the file has %d bytes, but the maximum is %d", name, len(data), maxFileBytes)
	}
	src := source{name, data}
	tree, err := parseTree(src)
	if err != nil {
		return nil, err
	}
	if p := checkVersion(tree); p != nil {
		return nil, src.locate(p)
	}
	return &Document{src, tree}, nil
}

// Decode fills a struct, using the json tags as keys.
func (d *Document) Decode(into any) error {
	if p := decode(d.tree, reflect.ValueOf(into).Elem()); p != nil {
		return d.source.locate(p)
	}
	return nil
}

// Has reports whether the document has a value at a path of keys and list indices.
func (d *Document) Has(path ...any) bool {
	_, whole := findNode(d.tree, path)
	return whole
}

// Errorf returns an error at a path, or at the nearest enclosing value that the file has.
func (d *Document) Errorf(path []any, format string, args ...any) error {
	node, _ := findNode(d.tree, path)
	return d.source.locate(problemf(node, format, args...))
}

// parseTree reads YAML that must be one mapping of plain values.
func parseTree(src source) (*ast.MappingNode, error) {
	parsed, err := parser.ParseBytes(src.data, 0)
	if err != nil {
		var positioned yaml.Error
		if errors.As(err, &positioned) && positioned.GetToken() != nil {
			at := positioned.GetToken().Position
			return nil, src.errorAt(at.Line, at.Column, positioned.GetMessage())
		}
		return nil, fmt.Errorf("%s: %w", src.name, err)
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return nil, src.errorAt(1, 1, "the file is empty: `wirelab init` writes an example")
	}
	if len(parsed.Docs) > 1 {
		return nil, src.locate(problemf(parsed.Docs[1].Body, "the file has a second YAML document: want one per file"))
	}
	body := parsed.Docs[0].Body
	var plain plainYAMLCheck
	ast.Walk(&plain, body)
	if plain.breach != nil {
		return nil, src.locate(plain.breach)
	}
	mapping, ok := body.(*ast.MappingNode)
	if !ok {
		return nil, src.locate(problemf(body, "want keys and values, found %s", describe(body)))
	}
	return mapping, nil
}

func checkVersion(tree *ast.MappingNode) *problem {
	version := valueOfKey(tree, "version")
	if version == nil {
		return problemf(tree, "the version is missing: write `version: %d`", Version)
	}
	text, _ := scalar(version)
	if text != strconv.Itoa(Version) {
		return problemf(version, "version: this program reads version %d, found %s; a newer wirelab may read it", Version, describe(version))
	}
	return nil
}

// plainYAMLCheck finds YAML features that a scenario does not need and that can expand a small file
// into a huge one.
type plainYAMLCheck struct{ breach *problem }

func (p *plainYAMLCheck) Visit(node ast.Node) ast.Visitor {
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		p.breach = problemf(node, "anchors, aliases and merge keys are not allowed: put keys that all parts share under `defaults`")
	case *ast.TagNode:
		p.breach = problemf(node, "YAML tags are not allowed: write the plain value")
	}
	if p.breach != nil {
		return nil
	}
	return p
}

func inheritDefaults(tree *ast.MappingNode) {
	builtIns := mustParse([]byte(builtInDefaults)).(*ast.MappingNode)
	inherit(tree, builtIns)
	for _, key := range []string{"quick", "defaults"} {
		inherit(valueOfKey(tree, key), valueOfKey(builtIns, key))
	}
	if parts, ok := valueOfKey(tree, "parts").(*ast.SequenceNode); ok {
		for _, part := range parts.Values {
			inherit(part, valueOfKey(tree, "defaults"))
		}
	}
}

//go:embed starter.yaml
var starter []byte

// Starter returns a small scenario file with comments, as a start for a user's own file. Its
// measurement takes less than a minute.
func Starter() []byte { return slices.Clone(starter) }
