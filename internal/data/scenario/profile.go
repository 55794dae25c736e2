package scenario

import (
	_ "embed" // embeds the profiles
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/pattern"
)

// profilesYAML holds the link profiles of wirelab, each with its source.
//
//go:embed profiles.yaml
var profilesYAML []byte

// Profiles returns the link profiles that wirelab knows by name.
func Profiles() []NamedNetwork {
	var list []NamedNetwork
	if p := decode(mustParse(profilesYAML), reflect.ValueOf(&list).Elem()); p != nil {
		panic("scenario: wirelab's own profiles: " + p.text)
	}
	return list
}

func mustParse(yaml []byte) ast.Node {
	parsed, err := parser.ParseBytes(yaml, 0)
	if err != nil {
		panic("scenario: wirelab's own profiles are not YAML: " + err.Error())
	}
	return parsed.Docs[0].Body
}

// profiles maps names to mappings of keys.
type profiles map[string]*ast.MappingNode

func ownProfiles() profiles {
	known := profiles{}
	if p := known.add(mustParse(profilesYAML)); p != nil {
		panic("scenario: wirelab's own profiles: " + p.text)
	}
	return known
}

// add adds the profiles of a list. A new profile replaces an old one with the same name.
func (known profiles) add(list ast.Node) *problem {
	sequence, ok := list.(*ast.SequenceNode)
	if !ok {
		return nil
	}
	added := profiles{}
	for _, node := range sequence.Values {
		profile := node.(*ast.MappingNode)
		name, _ := scalar(valueOfKey(profile, "name"))
		switch {
		case !isWord(name):
			return problemf(profile, "the profile needs a name of lower-case letters, digits and dashes, found %q", name)
		case added[name] != nil:
			return problemf(profile, "found a second profile named %q", name)
		case valueOfKey(profile, "profile") != nil:
			return problemf(valueOfKey(profile, "profile"), "profile: a profile cannot name another profile: write the other's keys here")
		}
		added[name] = profile
	}
	maps.Copy(known, added)
	return nil
}

func (known profiles) names() string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// resolveNetworks makes the tree decodable. It replaces profile names by the profiles' keys, copies
// the keys outside `up` and `down` into both, and splits a part with several networks.
func resolveNetworks(tree *ast.MappingNode) *problem {
	known := ownProfiles()
	if p := known.add(valueOfKey(tree, "profiles")); p != nil {
		return p
	}
	removeKeys(tree, "profiles")
	parts, ok := valueOfKey(tree, "parts").(*ast.SequenceNode)
	if !ok {
		return nil // the checker reports this mistake
	}
	var apart []ast.Node
	for _, node := range parts.Values {
		part := node.(*ast.MappingNode)
		each, p := partPerNetwork(part)
		if p != nil {
			return p
		}
		for _, one := range each {
			if network, ok := valueOfKey(one, "network").(*ast.MappingNode); ok {
				if p := known.mergeProfile(network); p != nil {
					return p
				}
			}
			apart = append(apart, one)
		}
	}
	parts.Values = apart
	return nil
}

// partPerNetwork returns a copy of the part for each of its networks, or the part itself if it has
// no networks.
func partPerNetwork(part *ast.MappingNode) ([]*ast.MappingNode, *problem) {
	list, ok := valueOfKey(part, "networks").(*ast.SequenceNode)
	switch {
	case !ok:
		return []*ast.MappingNode{part}, nil
	case valueOfKey(part, "network") != nil:
		return nil, problemf(list, "networks: the part has a `network` too: leave one of them out")
	case len(list.Values) == 0:
		return nil, problemf(list, "networks: want at least one, as in `networks: [{name: near}, {name: far, delay: 25ms}]`")
	}
	name := valueOfKey(part, "name")
	partName, _ := scalar(name)
	var parts []*ast.MappingNode
	for _, node := range list.Values {
		network := cloneMapping(node.(*ast.MappingNode))
		own, _ := scalar(valueOfKey(network, "name"))
		if !isWord(own) {
			return nil, problemf(node, "the network needs a name of lower-case letters, digits and dashes, found %q", own)
		}
		removeKeys(network, "name", "source")
		one := cloneMapping(part)
		removeKeys(one, "networks", "name")
		addKey(one, "name", textNodeAt(name, partName+"-"+own))
		addKey(one, "of", textNodeAt(name, partName))
		addKey(one, "network", network)
		parts = append(parts, one)
	}
	return parts, nil
}

// mergeProfile adds the profile's keys that a network lacks. It copies the keys outside `up` and
// `down` into both.
func (known profiles) mergeProfile(network *ast.MappingNode) *problem {
	base := &ast.MappingNode{}
	if named := valueOfKey(network, "profile"); named != nil {
		name, _ := scalar(named)
		if base = known[name]; base == nil {
			return problemf(named, "unknown profile %q: want one of %s", name, known.names())
		}
	}
	removeKeys(network, "profile")
	apart := false
	for _, way := range []string{"up", "down"} {
		apart = apart || valueOfKey(network, way) != nil || valueOfKey(base, way) != nil
	}
	if apart {
		for _, way := range []string{"up", "down"} {
			whole := cloneMapping(valueOfKey(network, way))
			for _, from := range []ast.Node{withKeys(network, pathKeys), valueOfKey(base, way), withKeys(base, pathKeys)} {
				if from != nil {
					inherit(whole, from)
				}
			}
			removeKeys(network, way)
			addKey(network, way, whole)
		}
		removeKeys(network, pathKeys...)
	} else {
		inherit(network, withKeys(base, pathKeys))
	}
	rest := cloneMapping(base)
	removeKeys(rest, append([]string{"name", "source", "up", "down"}, pathKeys...)...)
	inherit(network, rest)
	return nil
}

// ParseLink reads a network from one line. The line contains a profile's name, or keys and values,
// or both, as in `lte,loss=1%,up.rate=5Mbit/s`.
func ParseLink(line string) (Network, error) {
	network := &ast.MappingNode{}
	for i, item := range strings.Split(line, ",") {
		key, written, found := strings.Cut(strings.TrimSpace(item), "=")
		way, rest, ofWay := strings.Cut(key, ".")
		isWay := way == "up" || way == "down"
		switch {
		case isWay && !ofWay:
			return Network{}, fmt.Errorf("link %q: %s has keys of its own, as in %s.delay=5ms", line, way, way)
		case found:
		case i > 0:
			return Network{}, fmt.Errorf("link %q: found %q: want a key and its value, as in loss=1%%; only the first item may be a profile", line, item)
		case slices.Contains(linkKeys, key) || strings.Contains(key, "."):
			return Network{}, fmt.Errorf("link %q: %s has no value: want one, as in delay=5ms", line, key)
		default:
			key, written = "profile", key
		}
		if !plainWord().MatchString(written) {
			return Network{}, fmt.Errorf("link %q: found %q: want a profile (%s), or keys and values as in delay=5ms,loss=1%%", line, item, strings.Join(ProfileNames(), ", "))
		}
		into := network
		if isWay {
			if valueOfKey(network, way) == nil {
				addKey(network, way, &ast.MappingNode{})
			}
			into, key = valueOfKey(network, way).(*ast.MappingNode), rest
		}
		if valueOfKey(into, key) != nil {
			return Network{}, fmt.Errorf("link %q: %s is given twice", line, key)
		}
		addKey(into, key, mustParse([]byte(written)))
	}
	var raw, n Network
	p := decode(network, reflect.ValueOf(&raw).Elem())
	if p == nil {
		p = ownProfiles().mergeProfile(network)
	}
	if p == nil {
		p = decode(network, reflect.ValueOf(&n).Elem())
	}
	if p == nil {
		c := checker{tree: network}
		p = c.network(func(...any) treePath { return nil }, Part{Network: n})
	}
	if p != nil {
		return Network{}, fmt.Errorf("link %q: %w", line, p)
	}
	return n, nil
}

var linkKeys = jsonKeys(reflect.TypeFor[Network]())

// plainWord matches values that YAML reads as one plain word. It also matches negative numbers,
// because the checks of limits report negative numbers.
var plainWord = pattern.Lazy(`^-?\.?[A-Za-z0-9µ][A-Za-z0-9µ.%/+-]*$`)

// ProfileNames returns the names of wirelab's link profiles.
func ProfileNames() []string {
	return lists.Map(Profiles(), func(p NamedNetwork) string { return p.Name })
}
