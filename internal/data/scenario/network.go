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

// A NamedNetwork is a network with a name that a scenario can use.
type NamedNetwork struct {
	// The name of the network: lower-case letters, digits and dashes.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9-]+$"`
	// The source of the network's values, such as a publication.
	Source string `json:"source,omitempty"`
	Network
}

// A Network is a network for one trial alone: a new network namespace, or two namespaces with a
// link. The zero value means the machine's loopback.
type Network struct {
	// The number of local ports for connections to the server. If left out, Linux's default of
	// 28,232.
	Ports int `json:"ports,omitempty" jsonschema:"minimum=2,maximum=32768"`
	// Whether a new connection may use the port of a connection that was closed at least a second
	// ago, as on Linux's loopback. If left out, no: the port is blocked for a minute.
	TimeWaitReuse bool `json:"time-wait-reuse,omitempty"`
	// The name of a profile with the link's values. Other keys of this network override the
	// profile's values. After parsing, the profile's keys replace its name.
	Profile string `json:"profile,omitempty"`
	Path
	// The size of the link's longest IP packet, in bytes. If left out, 1500.
	MTU int `json:"mtu,omitempty" jsonschema:"minimum=576,maximum=9000"`
	// The random seed for the loss and the delay of packets. With the same seed, the same packets
	// are lost. If left out, each repeat has its own seed for all cells.
	Seed uint64 `json:"seed,omitempty"`
	// Whether to use a link even if it changes nothing, in order to measure its own cost.
	Emulated bool `json:"emulated,omitempty"`
	// Values from client to server, if the directions differ. They override the values outside.
	Up Path `json:"up,omitzero"`
	// Values from server to client, if the directions differ. They override the values outside.
	Down Path `json:"down,omitzero"`
}

// A Path holds how a link treats the packets of one direction.
type Path struct {
	// The delay of each packet. If left out, none.
	Delay Duration `json:"delay,omitempty"`
	// The variation of the delay: delays are uniform between delay minus jitter and delay plus
	// jitter. The packets stay in order.
	Jitter Duration `json:"jitter,omitempty"`
	// The share of packets that are lost independently.
	Loss Share `json:"loss,omitempty"`
	// The share of packets that are lost in runs. The mean length follows after a slash: 1%/5.
	BurstLoss BurstLoss `json:"burst-loss,omitzero"`
	// The share of packets that later packets overtake.
	Reorder Share `json:"reorder,omitempty"`
	// The share of packets that arrive twice.
	Duplicate Share `json:"duplicate,omitempty"`
	// The rate of the link in bits per second, including Ethernet headers. If left out, no limit.
	Rate BitRate `json:"rate,omitempty"`
	// The number of bytes that may wait before the rate limit. Further packets are dropped.
	Queue Size `json:"queue,omitempty"`
}

// Directions returns the paths from client to server (up) and from server to client (down).
func (n Network) Directions() (up, down Path) {
	if n.Up == (Path{}) && n.Down == (Path{}) {
		return n.Path, n.Path
	}
	return n.Up, n.Down
}

// HasLink reports whether a link connects client and server.
func (n Network) HasLink() bool {
	up, down := n.Directions()
	return n.Emulated || n.MTU != 0 || up != (Path{}) || down != (Path{})
}

// RoundTrip returns the least time between a packet and its answer, which is the sum of the delays
// in both directions.
func (n Network) RoundTrip() time.Duration {
	up, down := n.Directions()
	return time.Duration(up.Delay + down.Delay)
}

// String returns the link in the form that ParseLink reads. Without a link it is empty.
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
			// without spaces: 64KiB
			written := strings.ReplaceAll(fmt.Sprint(value.Interface()), " ", "")
			texts = append(texts, prefix+key+"="+written)
		}
	}
	return texts
}

// pathKeys lists the keys of a Path, in the order of its fields.
var pathKeys = jsonKeys(reflect.TypeFor[Path]())

// jsonKeys lists the json names of a struct's fields, including those of embedded structs.
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

// parseShare reads a share of at least 0 and less than 1.
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

// String returns the share in percent.
func (s Share) String() string {
	return strconv.FormatFloat(math.Round(float64(s)*1e10)/1e8, 'f', -1, 64) + "%"
}

// MarshalText returns the text of String.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text with parseShare.
func (s *Share) UnmarshalText(text []byte) error { return parseInto(s, text, parseShare) }

// BurstLoss is the loss of several packets in a row. The text form `1%/5` means that 1 % of the
// packets are lost, on average five in a row.
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
	// Between two runs at least one packet arrives, which limits the share of lost packets.
	if most := length / (length + 1); float64(lost) > most {
		return BurstLoss{}, fmt.Errorf("burst-loss %q: runs of %v packets lose at most %.3g%%: choose a smaller share, or longer runs", text, length, 100*most)
	}
	return BurstLoss{lost, length}, nil
}

func (b BurstLoss) String() string {
	return b.Share.String() + "/" + strconv.FormatFloat(b.Packets, 'g', -1, 64)
}

// MarshalText returns the text of String.
func (b BurstLoss) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the text with parseBurstLoss.
func (b *BurstLoss) UnmarshalText(text []byte) error { return parseInto(b, text, parseBurstLoss) }

// A BitRate is a rate in bits per second, written as `50Mbit/s`.
type BitRate int64

// bitUnits lists the units of a rate, the largest unit first.
var bitUnits = []struct {
	name string
	bits int64
}{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}, {"bit/s", 1}}

// leastBitsPerSecond is the lowest allowed rate. At lower rates a packet takes seconds.
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

// String formats the rate in the largest unit that does not exceed it.
func (r BitRate) String() string {
	for _, unit := range bitUnits {
		if int64(r) >= unit.bits {
			return strconv.FormatFloat(float64(r)/float64(unit.bits), 'f', -1, 64) + unit.name
		}
	}
	return "0bit/s"
}

// MarshalText returns the text of String.
func (r BitRate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the text with parseBitRate.
func (r *BitRate) UnmarshalText(text []byte) error { return parseInto(r, text, parseBitRate) }

// The limits of a network's values.
const (
	minPorts, maxPorts = 2, 32768
	minMTU, maxMTU     = 576, 9000
	defaultMTU         = 1500
	headerBytes        = 14 // length of an Ethernet header
	maxDelay           = Duration(10 * time.Second)
)
