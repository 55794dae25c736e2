// Package sumtest tests that a sum uses every field of its operands. If a Plus method forgot a new
// field, the field would silently be missing in the sum of several clients.
package sumtest

import (
	"cmp"
	"reflect"
	"testing"
	"unsafe"
)

// CheckPlus reports each field of T that plus ignores in one of its operands: the sum does not
// change with the field. ignored maps fields that plus should ignore, such as "Service" or
// "Named.Response", to the reason.
func CheckPlus[T any](t testing.TB, plus func(a, b T) T, ignored map[string]string) {
	t.Helper()
	var heeded [2]map[string]bool
	for operand := range heeded {
		heeded[operand] = map[string]bool{}
		for base := range 3 { // some fields change only some sums: false plus true is true
			a, b, c, d := newFilled[T](t, base), newFilled[T](t, base), newFilled[T](t, base), newFilled[T](t, base)
			before := plus(*a, *b) // plus may return memory of its operands
			all := map[string]reflect.Value{}
			collectLeaves(reflect.ValueOf([]*T{c, d}[operand]).Elem(), "", all)
			for path, leaf := range all {
				kept := reflect.New(leaf.Type()).Elem()
				kept.Set(leaf)
				for _, by := range []int64{1, -1} { // minima and maxima react to one direction only
					changeValue(leaf, by)
					heeded[operand][path] = heeded[operand][path] || !reflect.DeepEqual(plus(*c, *d), before)
					leaf.Set(kept)
				}
			}
		}
	}
	for path := range heeded[0] {
		switch is, reason := heeded[0][path] && heeded[1][path], reasonFor(path, ignored); {
		case !is && reason == "":
			t.Errorf("Plus of %s ignores %s: add it up, or give the reason", reflect.TypeFor[T](), path)
		case is && reason != "":
			t.Errorf("Plus of %s uses %s, but the test says that Plus ignores this field", reflect.TypeFor[T](), path)
		}
	}
}

func newFilled[T any](t testing.TB, base int) *T {
	v := new(T)
	fill(t, reflect.ValueOf(v).Elem(), base)
	return v
}

func reasonFor(path string, ignored map[string]string) (reason string) {
	for i := range path {
		if path[i] == '.' {
			reason = cmp.Or(reason, ignored[path[:i]])
		}
	}
	return cmp.Or(reason, ignored[path])
}

// fill sets all fields of v: one element per list, and values derived from base (0, 1 or 2).
func fill(t testing.TB, v reflect.Value, base int) {
	t.Helper()
	v = settable(v)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), base)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), base)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), base)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), base)
		}
	case reflect.String:
		v.SetString([]string{"", "one", "two"}[base])
	case reflect.Bool:
		v.SetBool(base == 1)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(int64(base))
	case reflect.Float64:
		v.SetFloat(float64(base))
	default:
		t.Fatalf("fill does not support fields of type %s: add the type to fill", v.Type())
	}
}

func settable(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// collectLeaves adds to all the values that have no fields, by their paths.
func collectLeaves(v reflect.Value, path string, all map[string]reflect.Value) {
	switch v = settable(v); v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch {
			case v.Type().Field(i).Anonymous:
				name = path
			case path != "":
				name = path + "." + name
			}
			collectLeaves(v.Field(i), name, all)
		}
	case reflect.Pointer:
		collectLeaves(v.Elem(), path, all)
	case reflect.Slice, reflect.Array:
		collectLeaves(v.Index(0), path, all)
	default:
		all[path] = v
	}
}

// changeValue changes a leaf's value: it adds by to a number.
func changeValue(v reflect.Value, by int64) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float64:
		v.SetFloat(v.Float() + float64(by))
	default:
		v.SetInt(v.Int() + by)
	}
}
