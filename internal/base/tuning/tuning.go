// Package tuning lists the settings of a stack that are not its library's defaults, each with its
// reason. If a library takes a struct, Differences compares the stack's struct with the defaults,
// and only the reasons are written by hand. If a library takes options, a List holds each option
// with its setting, and the stack takes its options from the list.
//
// This package must not know the libraries whose settings it compares.
package tuning

import (
	"fmt"
	"reflect"
	"slices"
)

// The sides of a connection that can have a setting.
const (
	Server = "server"
	Client = "client"
	Both   = "both"
)

// A Setting is one value that differs from a library's default.
type Setting struct {
	Side    string `json:"side"` // server, client or both
	Name    string `json:"name"` // the name that the library uses
	Value   string `json:"value"`
	Default string `json:"default"`
	Why     string `json:"why"`
}

// ReasonEnvironment is the reason for a setting that comes from the environment.
const ReasonEnvironment = "the environment of wirelab sets it"

// SettingsOf returns the settings of one side (server or client).
func SettingsOf(end string, all []Setting) []Setting {
	var own []Setting
	for _, s := range all {
		if s.Side == end || s.Side == Both {
			s.Side = end
			own = append(own, s)
		}
	}
	return own
}

// Join merges the settings of server and client. A setting of both sides gets the side Both.
func Join(server, client []Setting) []Setting {
	all := slices.Clone(server)
	for _, s := range client {
		twin := s
		twin.Side = Server
		if i := slices.Index(all, twin); i >= 0 {
			all[i].Side = Both
			continue
		}
		all = append(all, s)
	}
	return all
}

// A List holds settings and the options of a library that apply them.
type List[O any] struct {
	settings []Setting
	options  []O
}

// Add adds a setting and the options that apply it.
func (l *List[O]) Add(s Setting, apply ...O) {
	l.settings, l.options = append(l.settings, s), append(l.options, apply...)
}

// Options returns the options that apply the settings.
func (l List[O]) Options() []O { return slices.Clip(l.options) }

// Settings returns the settings that the options apply.
func (l List[O]) Settings() []Setting { return l.settings }

// Ends holds the settings of a library's server and client. S is the type of a server option, C
// the type of a client option.
type Ends[S, C any] struct {
	Server List[S]
	Client List[C]
}

// An Option is a library's option with its name.
type Option[O any] struct {
	Name  string
	Apply O
}

// Add adds a setting to the lists of server and client, each under the name of its own option.
func (e *Ends[S, C]) Add(s Setting, server Option[S], client Option[C]) {
	s.Side, s.Name = Server, server.Name
	e.Server.Add(s, server.Apply)
	s.Side, s.Name = Client, client.Name
	e.Client.Add(s, client.Apply)
}

// A Reason explains why a field differs from the library's default.
type Reason struct {
	Why string
	// Value and Default, if not empty, replace the field's values by words.
	Value, Default string
}

// NotASetting marks a field that is not a setting, such as a server's handler.
var NotASetting = Reason{}

// Reasons maps field names of a struct to reasons.
type Reasons map[string]Reason

// Differences lists the exported fields of used that differ from library, in the struct's order.
// The result includes fields without a reason.
func Differences[T any](end, name string, used, library *T, reasons Reasons) []Setting {
	var settings []Setting
	a, b := reflect.ValueOf(used).Elem(), reflect.ValueOf(library).Elem()
	for i := range a.NumField() {
		field := a.Type().Field(i)
		reason, known := reasons[field.Name]
		if !field.IsExported() || known && reason == NotASetting || equalValues(a.Field(i), b.Field(i)) {
			continue
		}
		s := Setting{Side: end, Name: name + "." + field.Name, Value: reason.Value, Default: reason.Default, Why: reason.Why}
		if s.Value == "" {
			s.Value = describeValue(a.Field(i))
		}
		if s.Default == "" {
			s.Default = describeValue(b.Field(i))
		}
		settings = append(settings, s)
	}
	return settings
}

// equalValues compares functions by their address, and other values deeply.
func equalValues(a, b reflect.Value) bool {
	if a.Kind() == reflect.Func {
		return a.Pointer() == b.Pointer()
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func describeValue(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Func && v.IsNil(), v.Kind() == reflect.Pointer && v.IsNil(), v.Kind() == reflect.Interface && v.IsNil():
		return "none"
	case v.Kind() == reflect.Func:
		return "set"
	default:
		return fmt.Sprint(v.Interface())
	}
}
