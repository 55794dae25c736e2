package message

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	rpccall "wirelab.dev/rpc/call"
)

// The fields of node's message.
const (
	nodeNext     = 1 // a node
	nodeBody     = 2 // bytes
	nodeGroup    = 3 // a group, which has a nodeNext
	nodeChildren = 4 // a map of nodes
	nodeList     = 5 // nodes
	nodeEither   = 6 // bytes or, as 7, a node
	nodeOr       = 7
	nodeText     = 8  // a string
	nodeNeedy    = 9  // a message with a required bytes field 1
	nodeUnknown  = 50 // no such field
	nodeExtra    = 100
)

// node is the type of a message that may hold others of its own kind, in all ways that
// there are: of proto2, which has groups, required fields and extensions, or of proto3,
// whose strings must be UTF-8.
func node(t testing.TB, syntax string) protoreflect.MessageDescriptor {
	t.Helper()
	name := "fastgrpc.test." + syntax
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	const (
		message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
		content = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
	)
	own := "." + name + ".Node"
	entry := &descriptorpb.DescriptorProto{
		Name: proto.String("ChildrenEntry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
		Field: []*descriptorpb.FieldDescriptorProto{field("key", 1, text, ""), field("value", 2, message, own)},
	}
	m := &descriptorpb.DescriptorProto{
		Name: proto.String("Node"),
		Field: []*descriptorpb.FieldDescriptorProto{
			field("next", nodeNext, message, own), field("body", nodeBody, content, ""),
			field("children", nodeChildren, message, own+".ChildrenEntry"), field("list", nodeList, message, own),
			field("either", nodeEither, content, ""), field("or", nodeOr, message, own), field("text", nodeText, text, ""),
		},
		OneofDecl:  []*descriptorpb.OneofDescriptorProto{{Name: proto.String("one")}},
		NestedType: []*descriptorpb.DescriptorProto{entry},
	}
	for _, f := range m.Field {
		switch f.GetNumber() {
		case nodeEither, nodeOr:
			f.OneofIndex = proto.Int32(0)
		case nodeChildren, nodeList:
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
	}
	file := &descriptorpb.FileDescriptorProto{Name: proto.String(name + ".proto"), Package: &name, Syntax: &syntax, MessageType: []*descriptorpb.DescriptorProto{m}}
	if syntax == "proto2" {
		needed := field("must", 1, content, "")
		needed.Label = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED.Enum()
		m.NestedType = append(m.NestedType,
			&descriptorpb.DescriptorProto{Name: proto.String("Group"), Field: []*descriptorpb.FieldDescriptorProto{field("next", nodeNext, message, own)}},
			&descriptorpb.DescriptorProto{Name: proto.String("Needy"), Field: []*descriptorpb.FieldDescriptorProto{needed}})
		m.Field = append(m.Field,
			field("group", nodeGroup, descriptorpb.FieldDescriptorProto_TYPE_GROUP, own+".Group"),
			field("needy", nodeNeedy, message, own+".Needy"))
		m.ExtensionRange = []*descriptorpb.DescriptorProto_ExtensionRange{{Start: proto.Int32(nodeExtra), End: proto.Int32(nodeExtra + 1)}}
		extra := field("extra", nodeExtra, content, "")
		extra.Extendee = &own
		file.Extension = []*descriptorpb.FieldDescriptorProto{extra}
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protoregistry.GlobalTypes.FindExtensionByName(protoreflect.FullName(name + ".extra")); err != nil && syntax == "proto2" {
		if err := protoregistry.GlobalTypes.RegisterExtension(dynamicpb.NewExtensionType(d.Extensions().Get(0))); err != nil {
			t.Fatal(err)
		}
	}
	return d.Messages().ByName("Node")
}

// wrap puts a message into a field of another, by its length or as a group.
type wrap struct {
	field protowire.Number
	group bool
}

func (w wrap) around(size int) (before, after []byte) {
	if w.group {
		return protowire.AppendTag(nil, w.field, protowire.StartGroupType), protowire.AppendTag(nil, w.field, protowire.EndGroupType)
	}
	return protowire.AppendVarint(protowire.AppendTag(nil, w.field, protowire.BytesType), uint64(size)), nil
}

// nested returns a message with this number of levels. It wraps each level by the next of ways.
func nested(levels int, inner []byte, ways ...wrap) []byte {
	var heads, tails [][]byte
	size := len(inner)
	for i := range levels - 1 {
		// Counted from the outside, so that the outermost is always the first way.
		before, after := ways[(levels-2-i)%len(ways)].around(size)
		heads, tails = append(heads, before), append(tails, after)
		size += len(before) + len(after)
	}
	slices.Reverse(heads)
	return slices.Concat(bytes.Join(heads, nil), inner, bytes.Join(tails, nil))
}

// TestDepthLimit checks that nesting has the limit of package proto, in each way to nest,
// for VTProto and for aliased messages.
func TestDepthLimit(t *testing.T) {
	body := protowire.AppendBytes(protowire.AppendTag(nil, nodeUnknown, protowire.BytesType), make([]byte, 2000))
	kind := node(t, "proto2")
	all := []int{1, 2, 9_000, 9_999, 10_000, 10_001, 10_002, 30_000, 300_000}
	if testing.Short() {
		all = all[3:7]
	}
	for name, ways := range map[string][]wrap{
		"messages":           {{field: nodeNext}},
		"a list":             {{field: nodeList}},
		"a oneof":            {{field: nodeOr}},
		"groups":             {{field: nodeGroup, group: true}, {field: nodeNext}},
		"unknown groups":     {{field: nodeUnknown, group: true}},
		"groups in messages": {{field: nodeNext}, {field: nodeNext}, {field: nodeUnknown, group: true}},
		"maps":               {{field: nodeChildren}, {field: 2}},
	} {
		for _, levels := range all {
			data := nested(levels, body, ways...)
			want := proto.Unmarshal(data, dynamicpb.NewMessage(kind))
			if err := rpccall.UnmarshalAliased(data, dynamicpb.NewMessage(kind)); (err == nil) != (want == nil) {
				t.Errorf("%s, %d levels, aliased: error %v, package proto %v", name, levels, err, want)
			}
			if err := checkDepth(data, kind); (err == nil) != (want == nil) {
				t.Errorf("%s, %d levels: error %v, package proto %v", name, levels, err, want)
			}
		}
	}
}

// FuzzCheckDepth checks that checkDepth lets pass what package proto accepts.
func FuzzCheckDepth(f *testing.F) {
	kinds := []protoreflect.MessageDescriptor{node(f, "proto2"), node(f, "proto3")}
	f.Add(nested(5, nil, wrap{field: nodeNext}), true)
	f.Add(nested(50, nil, wrap{field: nodeGroup, group: true}, wrap{field: nodeNext}), false)
	f.Add(nested(50, nil, wrap{field: nodeChildren}, wrap{field: 2}, wrap{field: nodeUnknown, group: true}), true)
	f.Fuzz(func(t *testing.T, data []byte, three bool) {
		defer skipBrokenMaps(t)
		kind := kinds[0]
		if three {
			kind = kinds[1]
		}
		for _, levels := range []int{0, 3, 100} { // so few that the walk is not cut short
			want := proto.UnmarshalOptions{RecursionLimit: levels + 1}.Unmarshal(data, dynamicpb.NewMessage(kind))
			s := depthScanner{data: data}
			if err := s.scanMessage(len(data), kind, 0, levels+1); err != nil && want == nil {
				t.Fatalf("%d levels: error %v, package proto none", levels, err)
			}
		}
	})
}

// skipBrokenMaps skips an input on which package proto itself panics: a dynamic message
// with a map whose key has another type on the wire.
func skipBrokenMaps(t *testing.T) {
	if fault := recover(); fault != nil {
		if text, _ := fault.(string); !strings.HasSuffix(text, "to map key") {
			panic(fault)
		}
		t.Skip("package proto panics: ", fault)
	}
}
