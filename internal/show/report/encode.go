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
//   - A figure is written as its value. The outermost object with figures around
//     it has a member `intervals`, where the figure's path is the key. Figures
//     tagged `interval:"-"` get no interval, because intervals would double the
//     page's size.
//   - An unknown value is null: a nil figure or number, NaN or infinity, and every
//     figure of a nil struct or of a cell without figures. Zero is not null.
//   - A list is never null.
//
// Characters with a meaning in HTML are not escaped.
func encode(value any, reader audience) ([]byte, error) {
	e := encoder{reader: reader}
	e.writeValue(reflect.ValueOf(value), position{})
	return e.out.Bytes(), e.err
}

// An audience reads the JSON: programs, or the page. A field tagged `page` is only for the page.
type audience string

const (
	forPrograms audience = "json"
	forPage     audience = "page"
)

// IntervalsByField holds the intervals of figures by the path of the field, such as
// "throughput_rps" or "service_us.p99".
type IntervalsByField map[string]matrix.Interval

type encoder struct {
	reader audience
	out    bytes.Buffer
	err    error
}

// A position describes the place of a value in the JSON.
type position struct {
	path      string           // path from the object with the intervals; ends with a dot
	intervals IntervalsByField // nil if no outer object has figures
	unknown   bool             // write every figure as null
	member    member
}

var (
	figureType        = reflect.TypeFor[matrix.Figure]()
	intervalsType     = reflect.TypeFor[IntervalsByField]()
	intSliceType      = reflect.TypeFor[[]int]()
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

func (e *encoder) writeValue(v reflect.Value, at position) {
	switch {
	case v.Type() == figureType:
		e.writeFigure(v.Interface().(matrix.Figure), at)
	case v.Type().Implements(textMarshalerType), v.Type().Implements(marshalerType):
		e.writeLeaf(v)
	case v.Kind() == reflect.Float64:
		e.writeNumber(v.Float())
	case v.Kind() == reflect.Pointer:
		e.writePointer(v, at)
	case v.Kind() == reflect.Struct:
		e.writeObject(v, at)
	case v.Type() == intSliceType && v.Len() > 0:
		e.writeLeaf(v) // one call, because there may be a million numbers
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		for i := range v.Len() {
			e.writeSeparator('[', i)
			e.writeValue(v.Index(i), position{})
		}
		if v.Len() == 0 {
			e.out.WriteByte('[')
		}
		e.out.WriteByte(']')
	case v.Type() == intervalsType:
		e.writeIntervals(v.Interface().(IntervalsByField))
	default:
		e.writeLeaf(v)
	}
}

func (e *encoder) writeIntervals(byPath IntervalsByField) {
	e.out.WriteByte('{')
	for i, path := range slices.Sorted(maps.Keys(byPath)) {
		if i > 0 {
			e.out.WriteByte(',')
		}
		e.out.WriteString(strconv.Quote(path) + ":")
		e.writeValue(reflect.ValueOf(byPath[path]), position{})
	}
	e.out.WriteByte('}')
}

func (e *encoder) writePointer(v reflect.Value, at position) {
	switch elem := v.Type().Elem(); {
	case !v.IsNil():
		e.writeValue(v.Elem(), at)
	case elem != figureType && elem.Kind() == reflect.Struct:
		at.unknown = true
		e.writeObject(reflect.New(elem).Elem(), at)
	default:
		e.out.WriteString("null")
	}
}

func (e *encoder) writeObject(v reflect.Value, at position) {
	members := membersOf(v.Type(), e.reader)
	begins := at.intervals == nil && hasFigures(members)
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
		e.writeSeparator('{', count)
		e.out.WriteString(strconv.Quote(m.name) + ":")
		e.writeValue(value, position{path: at.path + m.name + ".", intervals: at.intervals, unknown: at.unknown, member: m})
		count++
	}
	if begins {
		e.writeSeparator('{', count)
		e.out.WriteString(`"intervals":`)
		e.writeValue(reflect.ValueOf(at.intervals), position{})
		count++
	}
	if count == 0 {
		e.out.WriteByte('{')
	}
	e.out.WriteByte('}')
}

func (e *encoder) writeFigure(f matrix.Figure, at position) {
	if at.unknown {
		f = matrix.Figure{Value: math.NaN()}
	}
	if f.Interval != nil && at.member.Tag.Get("interval") != "-" {
		at.intervals[strings.TrimSuffix(at.path, ".")] = *f.Interval
	}
	e.writeNumber(f.Value)
}

func (e *encoder) writeNumber(value float64) {
	if !format.Finite(value) {
		e.out.WriteString("null")
		return
	}
	e.writeLeaf(reflect.ValueOf(value))
}

func (e *encoder) writeLeaf(v reflect.Value) {
	encoder := json.NewEncoder(&e.out)
	encoder.SetEscapeHTML(false) // people read the JSON, too
	if err := encoder.Encode(v.Interface()); err != nil && e.err == nil {
		e.err = fmt.Errorf("%s: %w", v.Type(), err)
	}
	e.out.Truncate(max(0, e.out.Len()-1)) // remove the end of the line
}

// writeSeparator writes the bracket or comma before a member or an element.
func (e *encoder) writeSeparator(open byte, count int) {
	if count > 0 {
		open = ','
	}
	e.out.WriteByte(open)
}

// A member is a field of a struct with its name in the JSON.
type member struct {
	reflect.StructField
	name     string
	optional bool // omit the field if it is zero
}

// membersOf lists the fields with a name for the reader, in order, with the fields of embedded
// structs in their place. As in Go, a field hides an embedded field of the same name. A page has
// thousands of structs of a few types, so the result is kept per type.
func membersOf(t reflect.Type, reader audience) []member {
	asked := membersKey{t, reader}
	if known, ok := membersByType.Load(asked); ok {
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
	membersByType.Store(asked, all)
	return all
}

var membersByType sync.Map // []member by membersKey

type membersKey struct {
	of     reflect.Type
	reader audience
}

// within are the structs with figures that are part of larger structs, which have their intervals.
var within = []reflect.Type{
	reflect.TypeFor[matrix.Latencies](), reflect.TypeFor[matrix.End](), reflect.TypeFor[matrix.Times](),
	reflect.TypeFor[matrix.Traffic](), reflect.TypeFor[matrix.Direction](), reflect.TypeFor[matrix.Wire](),
	reflect.TypeFor[matrix.WireBytes](), reflect.TypeFor[matrix.Search](),
}

// IntervalFields returns the member `intervals` of a struct in the JSON for programs, which is no field
// of the struct. The list is empty for a struct without figures.
func IntervalFields(of reflect.Type) []reflect.StructField { return intervalFields(of, forPrograms) }

func intervalFields(of reflect.Type, reader audience) []reflect.StructField {
	if !hasFigures(membersOf(of, reader)) || slices.Contains(within, of) {
		return nil
	}
	return []reflect.StructField{{Name: "Intervals", Type: intervalsType, Tag: `json:"intervals"`}}
}

func hasFigures(members []member) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.Type == figureType || m.Type == reflect.PointerTo(figureType) })
}
