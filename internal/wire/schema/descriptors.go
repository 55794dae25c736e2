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

	// Files that many schemas import, and few sets of descriptors include.
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

	"wirelab.dev/internal/base/spelling"
)

// standard reports whether a file belongs to Protocol Buffers.
func standard(path string) bool { return strings.HasPrefix(path, "google/protobuf/") }

// standardFile returns a file of Protocol Buffers, as linked into this program.
func standardFile(path string) (*descriptorpb.FileDescriptorProto, bool) {
	if !standard(path) {
		return nil, false
	}
	file, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return nil, false
	}
	return protodesc.ToFileDescriptorProto(file), true
}

// link checks a set of files, resolves its imports, and adds the standard files that it lacks.
func link(set *descriptorpb.FileDescriptorSet) (*protoregistry.Files, error) {
	have := map[string]bool{}
	for _, file := range set.File {
		have[file.GetName()] = true
	}
	whole := descriptorpb.FileDescriptorSet{File: slices.Clone(set.File)}
	for i := 0; i < len(whole.File); i++ { // whole.File grows in the loop
		for _, imported := range whole.File[i].Dependency {
			if have[imported] {
				continue
			}
			file, found := standardFile(imported)
			if !found {
				return nil, fmt.Errorf("%s imports %s, which is not in it: protoc includes imports with --include_imports, buf build without --exclude-imports",
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

// encode encodes the first n files.
func (s *fileSet) encode(n int) ([]byte, error) {
	return deterministic.Marshal(&descriptorpb.FileDescriptorSet{File: s.files[:n]})
}

// resolver finds the types that JSON names: of a google.protobuf.Any, and of extensions.
type resolver struct {
	*dynamicpb.Types
}

// FindMessageByName also finds the standard messages.
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
	return nil, unknownCall(call, slices.Sorted(maps.Keys(methods)))
}

// unknownCall returns the error about a call that is not in the list.
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
	var siblings, alike []string // calls of the same service; calls with another package or service
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

// callName returns pkg.Service/Method.
func callName(d protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("%s/%s", d.Parent().FullName(), d.Name())
}

// typeName returns the type of a field as a .proto file writes it.
func typeName(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s, %s>", f.MapKey().Kind(), typeName(f.MapValue()))
	case f.IsList():
		return "repeated " + elementName(f)
	}
	return elementName(f)
}

// elementName returns the type of one value of a field.
func elementName(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return string(f.Message().FullName())
	case f.Enum() != nil:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}
