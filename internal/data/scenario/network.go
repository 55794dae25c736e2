package scenario

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A NamedNetwork is a network that a scenario can name.
type NamedNetwork struct {
	// Its name: lower-case letters, digits and dashes.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9-]+$"`
	// The source of the conditions.
	Source string `json:"source,omitempty"`
	Network
}

// A Network is a network for the trial alone: a fresh network namespace, or two with a link
// between them. The zero value is the machine's loopback.
type Network struct {
	// How many local ports there are for connections to the server. If left
	// out, as many as Linux has by default: 28,232.
	Ports int `json:"ports,omitempty" jsonschema:"minimum=2,maximum=32768"`
	// Whether a connection may take over, after a second, the ports of one
	// that was closed, as Linux lets it on loopback. If left out, no: they are
	// held for a minute.
	TimeWaitReuse bool `json:"time-wait-reuse,omitempty"`
	// The name of a link's conditions; the keys beside it win over the named ones. In a
	// scenario that was read, the named keys replace the name.
	Profile string `json:"profile,omitempty"`
	Path
	// The longest IP packet of the link, in bytes. If left out, 1500.
	MTU int `json:"mtu,omitempty" jsonschema:"minimum=576,maximum=9000"`
	// The seed of the loss and the delay of packets: the same seed loses the same packets.
	// If left out, each repeat has its own seed, which all its cells share.
	Seed uint64 `json:"seed,omitempty"`
	// Whether there is a link even if it does nothing, to measure the link's own cost.
	Emulated bool `json:"emulated,omitempty"`
	// From client to server, if this direction differs: its keys win over the keys outside.
	Up Path `json:"up,omitzero"`
	// From server to client, likewise.
	Down Path `json:"down,omitzero"`
}

// A Path says how a link treats the packets of one direction.
type Path struct {
	// How long each packet takes. If left out, no time.
	Delay Duration `json:"delay,omitempty"`
	// How much the delay varies from packet to packet: evenly, from the delay minus this to
	// the delay plus this. The packets stay in order.
	Jitter Duration `json:"jitter,omitempty"`
	// The share of packets that are lost, each independently.
	Loss Share `json:"loss,omitempty"`
	// The share of packets that are lost in runs, and behind a slash the mean length
	// of a run, as in 1%/5.
	BurstLoss BurstLoss `json:"burst-loss,omitzero"`
	// The share of packets that later ones overtake.
	Reorder Share `json:"reorder,omitempty"`
	// The share of packets that arrive twice.
	Duplicate Share `json:"duplicate,omitempty"`
	// How many bits per second pass, including Ethernet headers. If left out, no limit.
	Rate BitRate `json:"rate,omitempty"`
	// How many bytes may wait for that rate; packets beyond that are dropped.
	Queue Size `json:"queue,omitempty"`
}

// Directions returns the paths from client to server, and back.
func (n Network) Directions() (up, down Path) {
	if n.Up == (Path{}) && n.Down == (Path{}) {
		return n.Path, n.Path
	}
	return n.Up, n.Down
}

// HasLink reports whether there is a link between the ends.
func (n Network) HasLink() bool {
	up, down := n.Directions()
	return n.Emulated || n.MTU != 0 || up != (Path{}) || down != (Path{})
}

// RoundTrip returns the least time that a packet and its answer take if nothing but the link's
// delay slows them.
func (n Network) RoundTrip() time.Duration {
	up, down := n.Directions()
	return time.Duration(up.Delay + down.Delay)
}

// String writes the link as ParseLink reads it, for labels; nothing without one.
func (n Network) String() string {
	texts := n.Path.texts("")
	if n.MTU != 0 {
		texts = append(texts, fmt.Sprintf("mtu=%d", n.MTU))
	}
	if n.Seed != 0 {
		texts = append(texts, fmt.Sprintf("seed=%d", n.Seed))
	}
	if n.Emulated {
		texts = append(texts, "emulated=true")
	}
	return strings.Join(slices.Concat(texts, n.Up.texts("up."), n.Down.texts("down.")), ",")
}

func (p Path) texts(prefix string) (texts []string) {
	values := reflect.ValueOf(p)
	for i, key := range pathKeys {
		if value := values.Field(i); !value.IsZero() {
			written := strings.ReplaceAll(fmt.Sprint(value.Interface()), " ", "") // as in 64KiB, in one word
			texts = append(texts, prefix+key+"="+written)
		}
	}
	return texts
}

// pathKeys lists the keys of a Path, in the order of its fields.
var pathKeys = jsonKeys(reflect.TypeFor[Path]())

// jsonKeys lists the json names of a struct, embedded structs included.
func jsonKeys(t reflect.Type) (keys []string) {
	for _, field := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Share is a part of a whole, written as `1%` or `0.01`.
type Share float64

// parseShare reads a share from 0 to below 1.
func parseShare(text string) (Share, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	value, err := strconv.ParseFloat(number, 64)
	if percent {
		value /= 100
	}
	if err != nil || !(value >= 0 && value < 1) {
		return 0, fmt.Errorf("share %q: want a number from 0 to below 1, or from 0%% to below 100%%", text)
	}
	return Share(value), nil
}

// String writes the share in percent.
func (s Share) String() string {
	return strconv.FormatFloat(math.Round(float64(s)*1e10)/1e8, 'f', -1, 64) + "%"
}

// MarshalText writes the share as String does.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text as parseShare does.
func (s *Share) UnmarshalText(text []byte) error { return parseInto(s, text, parseShare) }

// BurstLoss is loss in runs, written as `1%/5`: a hundredth of the packets, five at a time in
// the mean.
type BurstLoss struct {
	Share   Share
	Packets float64
}

func parseBurstLoss(text string) (BurstLoss, error) {
	share, packets, _ := strings.Cut(text, "/")
	lost, err := parseShare(share)
	length, lengthErr := strconv.ParseFloat(strings.TrimSpace(packets), 64)
	if cmp.Or(err, lengthErr) != nil || !(length >= 1 && length <= 1e6) || lost == 0 {
		return BurstLoss{}, fmt.Errorf("burst-loss %q: want a share, a slash and the mean length of a run, as in 1%%/5", text)
	}
	// The next run begins at least one packet after the end of a run: that bounds the share.
	if most := length / (length + 1); float64(lost) > most {
		return BurstLoss{}, fmt.Errorf("burst-loss %q: runs of %v packets lose at most %.3g%%: choose a smaller share, or longer runs", text, length, 100*most)
	}
	return BurstLoss{lost, length}, nil
}

func (b BurstLoss) String() string {
	return b.Share.String() + "/" + strconv.FormatFloat(b.Packets, 'g', -1, 64)
}

// MarshalText writes the loss as String does.
func (b BurstLoss) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the text as parseBurstLoss does.
func (b *BurstLoss) UnmarshalText(text []byte) error { return parseInto(b, text, parseBurstLoss) }

// A BitRate is a number of bits per second, written as `50Mbit/s`.
type BitRate int64

// bitUnits lists the units of a rate, the largest first.
var bitUnits = []struct {
	name string
	bits int64
}{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}, {"bit/s", 1}}

// leastBitsPerSecond is the rate of an old modem. Below it, a packet takes seconds.
const leastBitsPerSecond = 9600

func parseBitRate(text string) (BitRate, error) {
	for _, unit := range bitUnits {
		number, found := strings.CutSuffix(strings.TrimSpace(text), unit.name)
		if !found {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if bits := value * float64(unit.bits); err == nil && bits >= leastBitsPerSecond && bits <= 1e12 {
			return BitRate(math.Round(bits)), nil
		}
	}
	return 0, fmt.Errorf("rate %q: want a number and its unit, from 9.6kbit/s to 1000Gbit/s, as in 50Mbit/s", text)
}

// String writes the rate in the largest unit that is not above it.
func (r BitRate) String() string {
	for _, unit := range bitUnits {
		if int64(r) >= unit.bits {
			return strconv.FormatFloat(float64(r)/float64(unit.bits), 'f', -1, 64) + unit.name
		}
	}
	return "0bit/s"
}

// MarshalText writes the rate as String does.
func (r BitRate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the text as parseBitRate does.
func (r *BitRate) UnmarshalText(text []byte) error { return parseInto(r, text, parseBitRate) }

// The bounds of a network.
const (
	minPorts, maxPorts = 2, 32768
	minMTU, maxMTU     = 576, 9000
	defaultMTU         = 1500
	headerBytes        = 14 // of Ethernet
	maxDelay           = Duration(10 * time.Second)
)
