package report

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// encode writes a value of the types of this package and of analysis as JSON. It differs from
// [json.Marshal] for figures and lists:
//
//   - A figure is its value. Its interval goes to `intervals`, a member of the
//     object that the figure is in or, where that is part of a larger object with
//     figures, of the largest such one; its key is the path from there. A field
//     tagged `interval:"-"` leaves it out: a page with an interval for everything
//     would be twice as large.
//   - An unknown value is null: a nil figure or number, one that is not finite,
//     every figure of a cell that has none, and every figure of a nil struct. Zero
//     is a value like any other.
//   - A list is never null.
//
// Characters with a meaning in HTML are not escaped.
func encode(value any, reader reader) ([]byte, error) {
	e := encoder{reader: reader}
	e.value(reflect.ValueOf(value), place{})
	return e.out.Bytes(), e.err
}

// A reader is the audience of the JSON. A field tagged `page` is only for the page.
type reader string

const (
	forPrograms reader = "json"
	forPage     reader = "page"
)

// IntervalsByField holds the intervals of figures by the path of the field, such as
// "throughput_rps" or "service_us.p99".
type IntervalsByField map[string]matrix.Interval

type encoder struct {
	reader reader
	out    bytes.Buffer
	err    error
}

// A place describes the position of a value in the JSON.
type place struct {
	path      string           // path from the object with the intervals, with a dot at the end
	intervals IntervalsByField // nil outside objects with figures
	unknown   bool             // every figure is null
	member    member
}

var (
	figureType    = reflect.TypeFor[matrix.Figure]()
	intervalsType = reflect.TypeFor[IntervalsByField]()
	numbersType   = reflect.TypeFor[[]int]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

func (e *encoder) value(v reflect.Value, at place) {
	switch {
	case v.Type() == figureType:
		e.figure(v.Interface().(matrix.Figure), at)
	case v.Type().Implements(textType):
		e.leaf(v)
	case v.Kind() == reflect.Float64:
		e.number(v.Float())
	case v.Kind() == reflect.Pointer:
		e.pointer(v, at)
	case v.Kind() == reflect.Struct:
		e.object(v, at)
	case v.Type() == numbersType && v.Len() > 0:
		e.leaf(v) // in one piece: there may be a million numbers
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		for i := range v.Len() {
			e.separate('[', i)
			e.value(v.Index(i), place{})
		}
		if v.Len() == 0 {
			e.out.WriteByte('[')
		}
		e.out.WriteByte(']')
	case v.Type() == intervalsType:
		e.intervals(v.Interface().(IntervalsByField))
	default:
		e.leaf(v)
	}
}

func (e *encoder) intervals(byPath IntervalsByField) {
	e.out.WriteByte('{')
	for i, path := range slices.Sorted(maps.Keys(byPath)) {
		if i > 0 {
			e.out.WriteByte(',')
		}
		e.out.WriteString(strconv.Quote(path) + ":")
		e.value(reflect.ValueOf(byPath[path]), place{})
	}
	e.out.WriteByte('}')
}

func (e *encoder) pointer(v reflect.Value, at place) {
	switch elem := v.Type().Elem(); {
	case !v.IsNil():
		e.value(v.Elem(), at)
	case elem != figureType && elem.Kind() == reflect.Struct:
		at.unknown = true
		e.object(reflect.New(elem).Elem(), at)
	default:
		e.out.WriteString("null")
	}
}

func (e *encoder) object(v reflect.Value, at place) {
	members := membersOf(v.Type(), e.reader)
	begins := at.intervals == nil && holdsFigures(members)
	if begins {
		at.intervals = IntervalsByField{}
	}
	if v.CanAddr() {
		if c, is := v.Addr().Interface().(interface{ HasFigures() bool }); is {
			at.unknown = !c.HasFigures()
		}
	}
	count := 0
	for _, m := range members {
		value := v.FieldByIndex(m.Index)
		if m.optional && value.IsZero() {
			continue
		}
		e.separate('{', count)
		e.out.WriteString(strconv.Quote(m.name) + ":")
		e.value(value, place{path: at.path + m.name + ".", intervals: at.intervals, unknown: at.unknown, member: m})
		count++
	}
	if begins {
		e.separate('{', count)
		e.out.WriteString(`"intervals":`)
		e.value(reflect.ValueOf(at.intervals), place{})
		count++
	}
	if count == 0 {
		e.out.WriteByte('{')
	}
	e.out.WriteByte('}')
}

func (e *encoder) figure(f matrix.Figure, at place) {
	if at.unknown {
		f = matrix.Figure{Value: math.NaN()}
	}
	if f.Interval != nil && at.member.Tag.Get("interval") != "-" {
		at.intervals[strings.TrimSuffix(at.path, ".")] = *f.Interval
	}
	e.number(f.Value)
}

func (e *encoder) number(value float64) {
	if !format.Finite(value) {
		e.out.WriteString("null")
		return
	}
	e.leaf(reflect.ValueOf(value))
}

// leaf writes a value without figures.
func (e *encoder) leaf(v reflect.Value) {
	encoder := json.NewEncoder(&e.out)
	encoder.SetEscapeHTML(false) // people read "a → b" and "<", too
	if err := encoder.Encode(v.Interface()); err != nil && e.err == nil {
		e.err = fmt.Errorf("%s: %w", v.Type(), err)
	}
	e.out.Truncate(max(0, e.out.Len()-1)) // remove the end of the line
}

// separate writes the bracket or comma before a member or an element.
func (e *encoder) separate(open byte, count int) {
	if count > 0 {
		open = ','
	}
	e.out.WriteByte(open)
}

// A member is a field of a struct with its name in the JSON.
type member struct {
	reflect.StructField
	name     string
	optional bool // left out if zero
}

// membersOf lists the fields with a name for the reader, in order, with the fields of embedded
// structs in their place. As in Go, a field hides an embedded field of the same name. A page has
// thousands of structs of a few types, so the result is kept per type.
func membersOf(t reflect.Type, reader reader) []member {
	asked := memberKey{t, reader}
	if known, ok := knownMembers.Load(asked); ok {
		return known.([]member)
	}
	var all []member
	for _, field := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if page := field.Tag.Get("page"); page != "" && reader == forPage {
			name = page
		}
		if field.Anonymous || name == "" || name == "-" {
			continue
		}
		all = append(all, member{StructField: field, name: name, optional: strings.HasPrefix(options, "omit")})
	}
	knownMembers.Store(asked, all)
	return all
}

var knownMembers sync.Map // []member by memberKey

type memberKey struct {
	of     reflect.Type
	reader reader
}

func holdsFigures(members []member) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.Type == figureType || m.Type == reflect.PointerTo(figureType) })
}
