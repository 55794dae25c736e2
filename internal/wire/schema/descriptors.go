package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	// Many schemas import these files, but few descriptor sets include them.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/apipb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/sourcecontextpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/typepb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/spelling"
)

func isStandardPath(path string) bool { return strings.HasPrefix(path, "google/protobuf/") }

// standardFile returns a file of Protocol Buffers that is linked into this program.
func standardFile(path string) (*descriptorpb.FileDescriptorProto, bool) {
	if !isStandardPath(path) {
		return nil, false
	}
	file, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return nil, false
	}
	return protodesc.ToFileDescriptorProto(file), true
}

// linkFiles checks a set of files, adds missing standard files and resolves all imports.
func linkFiles(set *descriptorpb.FileDescriptorSet) (*protoregistry.Files, error) {
	have := map[string]bool{}
	for _, file := range set.File {
		have[file.GetName()] = true
	}
	whole := descriptorpb.FileDescriptorSet{File: slices.Clone(set.File)}
	for i := 0; i < len(whole.File); i++ { // the loop appends to whole.File
		for _, imported := range whole.File[i].Dependency {
			if have[imported] {
				continue
			}
			file, found := standardFile(imported)
			if !found {
				return nil, fmt.Errorf("%s imports %s, which is missing: use protoc with --include_imports, or buf build without --exclude-imports",
					whole.File[i].GetName(), imported)
			}
			have[imported] = true
			whole.File = append(whole.File, file)
		}
	}
	return protodesc.NewFiles(&whole)
}

// fileSet collects files, each after its imports, as a FileDescriptorSet requires.
type fileSet struct {
	files []*descriptorpb.FileDescriptorProto
	seen  map[string]bool
}

func (s *fileSet) add(file protoreflect.FileDescriptor) {
	if s.seen[file.Path()] {
		return
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		s.add(imports.Get(i).FileDescriptor)
	}
	s.files = append(s.files, protodesc.ToFileDescriptorProto(file))
}

var deterministic = proto.MarshalOptions{Deterministic: true}

func (s *fileSet) encode(n int) ([]byte, error) {
	return deterministic.Marshal(&descriptorpb.FileDescriptorSet{File: s.files[:n]})
}

// resolver finds the types of extensions and of the messages in a google.protobuf.Any.
type resolver struct {
	*dynamicpb.Types
}

// FindMessageByName searches the files and then the standard messages.
func (r resolver) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	found, err := r.Types.FindMessageByName(name)
	if errors.Is(err, protoregistry.NotFound) && name.Parent() == "google.protobuf" {
		return protoregistry.GlobalTypes.FindMessageByName(name)
	}
	return found, err
}

// FindMessageByURL finds a type by an Any's type URL.
func (r resolver) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return r.FindMessageByName(protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:]))
}

// splitCall splits pkg.Service/Method into service and method. A dot may replace the slash.
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

// findMethod returns the method that a call names, or an error that suggests existing methods.
func findMethod(files *protoregistry.Files, call string) (protoreflect.MethodDescriptor, error) {
	service, method := splitCall(call)
	methods := map[string]protoreflect.MethodDescriptor{}
	for file := range files.RangeFiles {
		services := file.Services()
		for i := range services.Len() {
			for j := range services.Get(i).Methods().Len() {
				d := services.Get(i).Methods().Get(j)
				methods[callName(d)] = d
			}
		}
	}
	if found := methods[service+"/"+method]; found != nil {
		return found, nil
	}
	calls := slices.Sorted(maps.Keys(methods))
	if call == "" && len(calls) > 0 {
		all := lists.Map(calls, func(name string) string { return signature(methods[name]) })
		return nil, fmt.Errorf("no method is named: write one of these behind the address, or give it to --call:\n  %s", strings.Join(all, "\n  "))
	}
	return nil, unknownCall(call, calls)
}

func unknownCall(call string, calls []string) error {
	service, method := splitCall(call)
	switch {
	case len(calls) == 0 && call == "":
		return errors.New("the files define no service: name a file that defines one")
	case len(calls) == 0:
		return fmt.Errorf("call %q: the files define no service: name a file that defines one", call)
	}
	var siblings, alike []string // siblings: calls of the same service; alike: calls with another package or service
	for _, c := range calls {
		s, m := splitCall(c)
		if s == service {
			siblings = append(siblings, c)
		}
		if m == method && (strings.HasSuffix(s, "."+service) || s[strings.LastIndexByte(s, '.')+1:] == service[strings.LastIndexByte(service, '.')+1:]) {
			alike = append(alike, c)
		}
	}
	meant, found := spelling.ClosestWord(service+"/"+method, calls)
	switch {
	case len(alike) == 1:
		return fmt.Errorf("call %q: there is no service %s; did you mean %s?", call, service, alike[0])
	case found:
		return fmt.Errorf("call %q is not known: did you mean %s?", call, meant)
	case len(siblings) > 0 && method == "":
		return fmt.Errorf("call %q names no method: want one of %s", call, joinNames(siblings))
	case len(siblings) > 0:
		return fmt.Errorf("call %q: %s has no method %s: want one of %s", call, service, method, joinNames(siblings))
	}
	return fmt.Errorf("call %q is not known: want one of %s", call, joinNames(calls))
}

const maxListed = 20

func joinNames(names []string) string {
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}

// signature describes a method in one line.
func signature(d protoreflect.MethodDescriptor) string {
	kind := map[bool]string{true: "stream "}
	return fmt.Sprintf("%s(%s%s) returns (%s%s)", callName(d),
		kind[d.IsStreamingClient()], d.Input().FullName(), kind[d.IsStreamingServer()], d.Output().FullName())
}

func callName(d protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("%s/%s", d.Parent().FullName(), d.Name())
}

func typeName(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s, %s>", f.MapKey().Kind(), typeName(f.MapValue()))
	case f.IsList():
		return "repeated " + elementName(f)
	}
	return elementName(f)
}

func elementName(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return string(f.Message().FullName())
	case f.Enum() != nil:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}
