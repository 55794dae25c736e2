package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"wirelab.dev/internal/base/spelling"
)

// splitCall takes pkg.Service/Method apart. A dot may stand for the slash.
func splitCall(call string) (service, method string) {
	call = strings.TrimPrefix(call, "/")
	at := strings.LastIndexByte(call, '/')
	if at < 0 {
		at = strings.LastIndexByte(call, '.')
	}
	if at < 0 {
		return call, ""
	}
	return call[:at], call[at+1:]
}

// choose returns the method that a call names, or an error that suggests existing ones.
func choose(files *protoregistry.Files, call string) (protoreflect.MethodDescriptor, error) {
	service, method := splitCall(call)
	methods := map[string]protoreflect.MethodDescriptor{}
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		services := file.Services()
		for i := range services.Len() {
			for j := range services.Get(i).Methods().Len() {
				d := services.Get(i).Methods().Get(j)
				methods[callName(d)] = d
			}
		}
		return true
	})
	if found := methods[service+"/"+method]; found != nil {
		return found, nil
	}
	var calls []string
	for name := range methods {
		calls = append(calls, name)
	}
	slices.Sort(calls)
	return nil, unknownCall(call, calls)
}

// unknownCall returns the error about a call that is none of these.
func unknownCall(call string, calls []string) error {
	service, method := splitCall(call)
	switch {
	case len(calls) == 0 && call == "":
		return errors.New("it has no service")
	case len(calls) == 0:
		return fmt.Errorf("call %q: it has no service", call)
	case call == "":
		return fmt.Errorf("which method? Name it with --call: %s", list(calls))
	}
	var siblings, alike []string // of the same service; with another package, or another service
	for _, c := range calls {
		s, m := splitCall(c)
		if s == service {
			siblings = append(siblings, c)
		}
		if m == method && (strings.HasSuffix(s, "."+service) || s[strings.LastIndexByte(s, '.')+1:] == service[strings.LastIndexByte(service, '.')+1:]) {
			alike = append(alike, c)
		}
	}
	meant, found := spelling.Meant(service+"/"+method, calls)
	switch {
	case len(alike) == 1:
		return fmt.Errorf("call %q: there is no service %s; did you mean %s?", call, service, alike[0])
	case found:
		return fmt.Errorf("call %q: did you mean %s?", call, meant)
	case len(siblings) > 0 && method == "":
		return fmt.Errorf("call %q names no method: want one of %s", call, list(siblings))
	case len(siblings) > 0:
		return fmt.Errorf("call %q: %s has no method %s: want one of %s", call, service, method, list(siblings))
	}
	return fmt.Errorf("call %q: want one of %s", call, list(calls))
}

// maxListed limits the names that an error shows.
const maxListed = 20

func list(names []string) string {
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}
