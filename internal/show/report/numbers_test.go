package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A fact is a number of --json, with its subject as the objects around it say it.
type fact struct {
	path  string // of names, without the places in lists
	value float64
	of    about
	kind  string  // of its unit
	size  float64 // of its unit, in that of the kind
	read  []func(float64) float64
}

// An about says what a number is about. An empty field is unknown.
type about struct {
	variants []string
	clients  []float64
	sizes    [][2]float64 // in bytes: of the request and of the response
}

// A statement holds the numbers and the words of --json.
type statement struct {
	facts    []fact
	variants []string
	texts    []string // that have a digit, the longest first
	parts    []string
	advice   []string
}

func stated(t *testing.T, object []byte) *statement {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(object, &tree); err != nil {
		t.Fatal(err)
	}
	s := &statement{}
	for _, sentence := range tree["advice"].([]any) {
		s.advice = append(s.advice, sentence.(string))
	}
	delete(tree, "advice")
	s.read(tree, "", about{})
	for _, all := range []*[]string{&s.variants, &s.texts, &s.parts} {
		slices.SortFunc(*all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
		*all = slices.Compact(*all)
	}
	return s
}

// The names of what an object is of.
var (
	variantNames = []string{"variant", "a", "b", "base", "changed", "with", "without", "of", "against", "better"}
)

func (s *statement) read(value any, path string, of about) {
	switch value := value.(type) {
	case map[string]any:
		of = s.enter(value, of)
		for name, member := range value {
			if figure, is := value["figure"].(string); is && name == "value" { // of a claim
				name += figureUnits[figure]
			}
			if name != "text" { // of a diagnosis: a sentence, not a source
				s.read(member, strings.TrimPrefix(path+"."+name, "."), of)
			}
		}
	case []any:
		for _, member := range value {
			s.read(member, path, of)
		}
	case float64:
		s.facts = append(s.facts, newFact(path, value, of))
	case string:
		s.add(value)
	}
}

// figureUnits are the units of the figures of claims.
var figureUnits = map[string]string{"mean": "_us", "p50": "_us", "p99": "_us", "cpu": "_us", "client-cpu": "_us", "server-cpu": "_us", "throughput": "_rps"}

// enter adds what an object says that it is of.
func (s *statement) enter(object map[string]any, of about) about {
	var variants []string
	names := variantNames
	if object["option"] == nil { // else from and to are its values
		names = slices.Concat(names, []string{"from", "to"})
	}
	for _, name := range names {
		if variant, is := object[name].(string); is && variant != "" {
			variants = append(variants, variant)
		}
	}
	of.variants = slices.Concat(of.variants, variants)
	s.variants = append(s.variants, variants...)
	if clients, is := object["clients"].(float64); is {
		of.clients = []float64{clients}
	}
	if part, is := object["part"].(string); is {
		s.parts = append(s.parts, part)
	}
	if request, is := object["request_bytes"].(float64); is {
		of.sizes = [][2]float64{{request, object["response_bytes"].(float64)}}
	}
	if crossing, is := object["bytes"].(float64); is {
		of.sizes = [][2]float64{{crossing, crossing}}
	}
	return of
}

// add adds a text, and what follows a colon in it: a warning is a headline and a detail.
func (s *statement) add(text string) {
	for text != "" {
		if strings.ContainsAny(text, "0123456789") && len(strings.Trim(text, "0123456789.,")) > 0 {
			s.texts = append(s.texts, text)
		}
		_, text, _ = strings.Cut(text, ": ")
	}
}

// exempt are numbers that stand in a sentence and nowhere else, each with the reason.
var exempt = []struct{ reason, pattern string }{
	{"the name of a percentile", `\bP[0-9.]+`},
	{"the value of an option", `\b[a-z0-9]+=\S+`},
	{"how many of the run's own trials, cells or variants the sentence goes over", `\b[0-9]+ of [0-9]+ trials|\bin [0-9]+ trials?\b|\b(all )?[0-9]+ (more|variants|cells|cell more|cells more|cases?|closed loops|other checks?|trials failed)\b|\b(in|within [0-9]+ %|undecided in) [0-9]+( \(|, | and|:|;|\.( |$)|$)`},
	{"how many points a lead goes over", `\b[0-9]+ of [0-9]+ points?|\b(all|at) [0-9]+ points?|\bproven at [0-9]+\b`},
	{"the numbers of clients of a group of points", `\b[Ww]ith ([0-9]+, )*[0-9]+ and [0-9]+ clients`},
	{"a quotient of figures over several points", `\b[0-9.,]+( to [0-9.,]+)? times before the next`},
	{"a limit of the analysis", `\bneeds 1,000 requests per trial|\b10,000 repeats|\b(takes|needs) 5 (numbers of clients|rates)|\bwithin [0-9]+ %`},
}

// A reading is one way to write a figure in a sentence.
type reading struct {
	name string
	path *regexp.Regexp // of the facts that may be put so
	of   func(float64) float64
}

var readings = []reading{
	{"as it is", regexp.MustCompile(``), func(v float64) float64 { return v }},
	{"a ratio from the other side", regexp.MustCompile(`ratio(\.low|\.high)?$`), func(v float64) float64 { return 1 / v }},
	{"a factor", regexp.MustCompile(`findable$`), func(v float64) float64 { return 1 + v }},
	{"what is saved", regexp.MustCompile(`^contrasts\..*ratio(\.low|\.high)?$`), func(v float64) float64 { return 1 - v }},
}

// A number is a number of a sentence.
type number struct {
	text   string
	value  float64
	unit   string
	at     int
	end    int
	clause string
	of     about
}

// kinds are the units of sentences and, by the end of its name, those of --json, each
// with its size in a common one.
var (
	spokenUnits = map[string]struct {
		kind string
		size float64
	}{
		"": {"", 1}, "%": {"", 0.01}, "µs": {"time", 1}, "ms": {"time", 1e3}, "s": {"time", 1e6}, "/s": {"rate", 1}, "GB/s": {"bulk", 1},
		"B": {"bytes", 1}, "KiB": {"bytes", 1 << 10}, "MiB": {"bytes", 1 << 20},
	}
	factUnits = []struct {
		path *regexp.Regexp
		kind string
		size float64
	}{
		{regexp.MustCompile(`gb_per_second`), "bulk", 1},
		{regexp.MustCompile(`_s_per_gb`), "time", 1e6},
		{regexp.MustCompile(`_us(\.|$)`), "time", 1},
		{regexp.MustCompile(`_ms(\.|$)`), "time", 1e3},
		{regexp.MustCompile(`_rps(\.|$)|rate_per_second`), "rate", 1},
		{regexp.MustCompile(`(_|\.)bytes(\.|$)|bytes_per_call`), "bytes", 1},
	}
)

func newFact(path string, value float64, of about) fact {
	f := fact{path: path, value: value, of: of, size: 1}
	for _, u := range factUnits {
		if u.path.MatchString(path) {
			f.kind, f.size = u.kind, u.size
			break
		}
	}
	for _, r := range readings {
		if r.path.MatchString(path) {
			f.read = append(f.read, r.of)
		}
	}
	return f
}

// says reports whether the number is the fact, to the digits that it has.
func (n number) says(f fact) bool {
	unit := spokenUnits[n.unit]
	if f.kind != unit.kind {
		return false
	}
	for _, read := range f.read {
		v := read(f.value) * f.size / unit.size
		digits := 0.5
		if v != 0 {
			digits *= math.Pow10(int(math.Floor(math.Log10(math.Abs(v)))) - 2)
		}
		switch {
		case math.Abs(v-n.value) <= digits*1.0001:
			return true
		case strings.Contains(f.path, "clients") && math.Round(v) == n.value:
			return true
		case n.unit == "%" && (strings.HasSuffix(f.path, "achieved") || strings.HasSuffix(f.path, "_share")) && math.Abs(v-n.value) <= 1:
			return true
		}
	}
	return false
}

// fits reports whether the fact is of what the sentence's clause is of.
func (n number) fits(f fact) bool {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 0.005*b }
	ofSize := len(n.of.sizes) == 0 || slices.ContainsFunc(f.of.sizes, func(size [2]float64) bool {
		return near(size[0], n.of.sizes[0][0]) && near(size[1], n.of.sizes[0][1])
	})
	ofClients := len(n.of.clients) == 0 || slices.Equal(n.of.clients, f.of.clients)
	ofVariant := len(n.of.variants) == 0 || slices.ContainsFunc(n.of.variants, func(v string) bool { return slices.Contains(f.of.variants, v) })
	return ofVariant && ofClients && ofSize
}

func (s *statement) tells(n number) bool {
	return slices.ContainsFunc(s.facts, func(f fact) bool { return n.fits(f) && n.says(f) })
}

// untold returns what is wrong with the numbers of a sentence.
func (s *statement) untold(sentence string) []string {
	var wrong []string
	for _, n := range s.numbers(sentence) {
		if !s.tells(n) {
			found := "stands nowhere in the object"
			if i := slices.IndexFunc(s.facts, n.says); i >= 0 {
				found = fmt.Sprintf("stands there (as %s) only for something else than %+v", s.facts[i].path, n.of)
			}
			wrong = append(wrong, fmt.Sprintf("%s %s: %s", strings.TrimSpace(n.text), found, sentence))
		}
	}
	return wrong
}

var (
	numberPattern  = regexp.MustCompile(`(?:^|[^\w.,⟦<])(-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)( ?%| µs| ms| s\b| GB/s|/s| B\b| KiB| MiB)?`)
	variantPattern = regexp.MustCompile(`⟦([0-9]+)⟧(?:(?:, | and | or |, and )⟦[0-9]+⟧)*`)
	eachVariant    = regexp.MustCompile(`⟦([0-9]+)⟧`)
	clientsPattern = regexp.MustCompile(`(?:[Ww]ith |, )([0-9]+) clients?|with ([0-9]+)\b`)
	sizePattern    = regexp.MustCompile(`(?:\b(?:at|of|and) |, |\(|^ ?)([0-9.,]+) (B|KiB|MiB)(?: → ([0-9.,]+) (B|KiB|MiB))?`)
)

// numbers returns the numbers of a sentence, each with its subject if the clause of the number names
// one.
func (s *statement) numbers(text string) []number {
	for _, part := range s.parts {
		text = strings.TrimPrefix(text, part+": ")
	}
	for _, known := range s.texts {
		if !slices.Contains(s.variants, known) {
			text = replaceWord(text, known, "…")
		}
	}
	for i, variant := range s.variants {
		text = replaceWord(text, variant, fmt.Sprintf("⟦%d⟧", i))
	}
	for _, e := range exempt {
		text = regexp.MustCompile(e.pattern).ReplaceAllString(text, "…")
	}
	var all []number
	for _, sentence := range strings.Split(text, ". ") {
		var heads []string
		for _, clause := range strings.Split(sentence, ";") {
			if head, _, found := strings.Cut(clause, ": "); found {
				heads = slices.Insert(heads, 0, head)
			}
			all = append(all, s.numbersOf(clause, heads)...)
		}
	}
	return all
}

// replaceWord replaces a name where it stands alone, not as the part of another.
func replaceWord(text, word, by string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, word)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		inside := regexp.MustCompile(`[\w:=]$`).MatchString(out.String()) || regexp.MustCompile(`^(\w|[:=,]\w)`).MatchString(after)
		if inside {
			out.WriteString(word)
		} else {
			out.WriteString(by)
		}
		text = after
	}
}

func (s *statement) numbersOf(clause string, heads []string) []number {
	var all []number
	for _, m := range numberPattern.FindAllStringSubmatchIndex(clause, -1) {
		text := clause[m[2]:m[3]]
		value, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		if err != nil {
			panic(err)
		}
		n := number{text: clause[m[2]:m[1]], value: value, at: m[2], end: m[1], clause: clause}
		if m[4] >= 0 {
			n.unit = strings.TrimSpace(clause[m[4]:m[5]])
		}
		all = append(all, n)
	}
	for i := range all {
		n := &all[i]
		if n.unit == "" && i+1 < len(all) && clause[n.end:all[i+1].at] == " to " {
			n.unit = all[i+1].unit
		}
		n.of = about{variants: s.variantsFor(*n, heads), clients: clientsFor(*n, heads), sizes: sizesFor(clause, heads)}
	}
	return all
}

// variantsFor is the variant, or the list of them, that was named last before the
// number in its clause; or the only one of what stood before the last colon, or of the
// clause.
func (s *statement) variantsFor(n number, heads []string) []string {
	groups := variantPattern.FindAllStringIndex(n.clause, -1)
	last := -1
	for i, g := range groups {
		if g[0] < n.at {
			last = i
		}
	}
	if last >= 0 {
		return s.named(n.clause[groups[last][0]:groups[last][1]])
	}
	for _, head := range heads {
		if named := s.named(head); len(named) > 0 {
			return only(named)
		}
	}
	return only(s.named(n.clause))
}

func (s *statement) named(text string) []string {
	var names []string
	for _, m := range eachVariant.FindAllStringSubmatch(text, -1) {
		i, _ := strconv.Atoi(m[1])
		if !slices.Contains(names, s.variants[i]) {
			names = append(names, s.variants[i])
		}
	}
	return names
}

func only[T any](all []T) []T {
	if len(all) == 1 {
		return all
	}
	return nil
}

// clientsFor is the number of clients that follows the number at once, or the only one
// of the clause or the head.
func clientsFor(n number, heads []string) []float64 {
	rest := regexp.MustCompile(`^( \([^)]*\))? with ([0-9]+)\b`).FindStringSubmatch(n.clause[n.end:])
	if rest != nil {
		v, _ := strconv.ParseFloat(rest[2], 64)
		return []float64{v}
	}
	for _, text := range append([]string{n.clause}, heads...) {
		var all []float64
		for _, m := range clientsPattern.FindAllStringSubmatch(text, -1) {
			v, _ := strconv.ParseFloat(cmp.Or(m[1], m[2]), 64)
			if !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
		if len(all) > 0 {
			return only(all)
		}
	}
	return nil
}

// sizesFor are the only sizes of the clause or the heads.
func sizesFor(clause string, heads []string) [][2]float64 {
	bytes := func(count, unit string) float64 {
		v, _ := strconv.ParseFloat(strings.ReplaceAll(count, ",", ""), 64)
		return v * spokenUnits[unit].size
	}
	for _, text := range append([]string{clause}, heads...) {
		var all [][2]float64
		for _, m := range sizePattern.FindAllStringSubmatch(text, -1) {
			size := [2]float64{bytes(m[1], m[2]), bytes(cmp.Or(m[3], m[1]), cmp.Or(m[4], m[2]))}
			if !slices.Contains(all, size) {
				all = append(all, size)
			}
		}
		if len(all) > 0 {
			return only(all)
		}
	}
	return nil
}

// check reports every number of the object's advice that does not stand in it.
func (s *statement) check(t *testing.T) {
	t.Helper()
	for _, sentence := range s.advice {
		for _, wrong := range s.untold(sentence) {
			t.Error(wrong)
		}
	}
}
