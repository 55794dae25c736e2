package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	// The files that everybody imports, and few include in what they hand out.
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
)

// standard reports whether a file belongs to Protocol Buffers.
func standard(path string) bool { return strings.HasPrefix(path, "google/protobuf/") }

// standardFile finds a file of Protocol Buffers, which this program has anyway.
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

// link checks a set of files and connects them with each other. It adds imported files of
// Protocol Buffers that are missing.
func link(set *descriptorpb.FileDescriptorSet) (*protoregistry.Files, error) {
	have := map[string]bool{}
	for _, file := range set.File {
		have[file.GetName()] = true
	}
	whole := descriptorpb.FileDescriptorSet{File: slices.Clone(set.File)}
	for i := 0; i < len(whole.File); i++ { // it grows
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

// fileSet collects files, each after those that it imports, as a FileDescriptorSet
// requires.
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

// encode encodes the first n files.
func (s *fileSet) encode(n int) ([]byte, error) {
	return deterministic.Marshal(&descriptorpb.FileDescriptorSet{File: s.files[:n]})
}

// sorted returns all files in the order of their names, so that equal sources have equal sets.
func sorted(files *protoregistry.Files) []protoreflect.FileDescriptor {
	var all []protoreflect.FileDescriptor
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		all = append(all, file)
		return true
	})
	slices.SortFunc(all, func(a, b protoreflect.FileDescriptor) int { return cmp.Compare(a.Path(), b.Path()) })
	return all
}

// resolver finds the types that messages name in their JSON: of a google.protobuf.Any,
// and of extensions.
type resolver struct {
	*dynamicpb.Types
}

// FindMessageByName finds also what belongs to Protocol Buffers.
func (r resolver) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	found, err := r.Types.FindMessageByName(name)
	if errors.Is(err, protoregistry.NotFound) && name.Parent() == "google.protobuf" {
		return protoregistry.GlobalTypes.FindMessageByName(name)
	}
	return found, err
}

// FindMessageByURL finds a type by the address that an Any has.
func (r resolver) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return r.FindMessageByName(protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:]))
}
