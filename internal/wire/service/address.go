package service

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AddressRules say where calls connect in place of a target's host and port. The rules have the
// forms and the meaning of curl's flags with the same names. They do not change names in requests
// and certificates.
type AddressRules struct {
	ConnectTo []string      // HOST1:PORT1:HOST2:PORT2; an empty HOST1 or PORT1 matches all
	Resolve   []string      // HOST:PORT:ADDRESS[,ADDRESS]…; HOST may be *
	Policy    Policy        // which addresses get calls, if there are several
	Server    string        // the name server, IP or IP:PORT; empty means the machine's own
	Every     time.Duration // the time between two look-ups during the load; 0 means none
}

// Apply sets Dial of each target that a rule matches. It returns an error if no rule matches any.
func (r AddressRules) Apply(targets ...*Target) error {
	for _, t := range targets {
		if err := r.Policy.check(*t); err != nil {
			return err
		}
		t.Policy = r.Policy
	}
	if err := r.applyTo(targets); err != nil {
		return err
	}
	return r.setLookUp(targets)
}

func (r AddressRules) applyTo(targets []*Target) error {
	rule := append(flagged("--connect-to ", r.ConnectTo), flagged("--resolve ", r.Resolve)...)
	if len(rule) == 0 {
		return nil
	}
	matched := false
	for _, t := range targets {
		switch is, err := r.applyToOne(t); {
		case err != nil:
			return err
		case is && t.Socket != "":
			return fmt.Errorf("%s: calls go to the unix socket %s: leave out one of the two", rule[0], t.Socket)
		case is:
			matched = true
		}
	}
	if !matched {
		return fmt.Errorf("%s: the target is %s: want its host and port before the address, or leave out the option",
			rule[0], net.JoinHostPort(targets[0].Host, targets[0].Port))
	}
	return nil
}

func flagged(flag string, values []string) (all []string) {
	for _, value := range values {
		all = append(all, flag+value)
	}
	return all
}

// applyToOne sets Dial of one target. The first matching rule of ConnectTo and the last one of Resolve
// win, as in curl; Resolve finds the addresses of the host that ConnectTo names.
func (r AddressRules) applyToOne(t *Target) (matched bool, _ error) {
	host, port := t.Host, t.Port
	for _, text := range r.ConnectTo {
		parts, err := splitColons(text)
		if err == nil && len(parts) == 3 {
			parts = append(parts, "")
		}
		if err != nil || len(parts) != 4 || !isPort(parts[1]) || !isPort(parts[3]) {
			return false, fmt.Errorf("--connect-to: found %q: want HOST1:PORT1:HOST2:PORT2, as in shop.test:443:127.0.0.1:8443, with an IPv6 address in brackets", text)
		}
		if !matched && matches(parts, "", t) {
			matched = true
			host, port = cmp.Or(parts[2], host), cmp.Or(parts[3], port)
			t.Dial = []string{net.JoinHostPort(host, port)}
		}
	}
	asked := &Target{Host: host, Port: port}
	for _, text := range r.Resolve {
		name, addresses, err := splitResolve(text)
		if err != nil {
			return false, err
		}
		if !matches(name, "*", asked) {
			continue
		}
		matched, t.Dial = true, nil
		for _, address := range addresses {
			t.Dial = append(t.Dial, net.JoinHostPort(address.String(), port))
		}
	}
	return matched, nil
}

// matches reports whether a rule's host and port are the target's. The text in all matches any host.
func matches(rule []string, all string, t *Target) bool {
	return (rule[0] == all || strings.EqualFold(rule[0], t.Host)) && (rule[1] == "" || rule[1] == t.Port)
}

// splitResolve splits HOST:PORT:ADDRESS[,ADDRESS]…. The + of curl before it has no effect here,
// because the addresses are looked up once.
func splitResolve(text string) (name []string, addresses []netip.Addr, _ error) {
	refused := func(found string) error {
		return fmt.Errorf("--resolve: found %q: want HOST:PORT:ADDRESS, as in shop.test:443:127.0.0.1; --connect-to takes a name in place of the address", found)
	}
	host, rest, _ := strings.Cut(strings.TrimPrefix(text, "+"), ":")
	if inside, is := strings.CutPrefix(host, "["); is { // an IPv6 host has colons itself
		var after string
		if host, after, is = strings.Cut(inside+":"+rest, "]:"); !is {
			return nil, nil, refused(text)
		}
		rest = after
	}
	port, list, _ := strings.Cut(rest, ":")
	if host == "" || port == "" || !isPort(port) {
		return nil, nil, refused(text)
	}
	for address := range strings.SplitSeq(list, ",") {
		ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(address, "["), "]"))
		if err != nil {
			return nil, nil, refused(text)
		}
		addresses = append(addresses, ip)
	}
	return []string{host, port}, addresses, nil
}

// splitColons splits a text at its colons, except those in brackets, and removes the brackets.
func splitColons(text string) ([]string, error) {
	parts := []string{""}
	for text != "" {
		last := &parts[len(parts)-1]
		switch inside, is := strings.CutPrefix(text, "["); {
		case is && *last == "":
			address, after, closed := strings.Cut(inside, "]")
			if !closed || after != "" && after[0] != ':' {
				return nil, fmt.Errorf("found %q: the bracket [ has no end before a colon", text)
			}
			*last, text = address, after
		case text[0] == ':':
			parts, text = append(parts, ""), text[1:]
		default:
			*last += text[:1]
			text = text[1:]
		}
	}
	return parts, nil
}

func isPort(text string) bool {
	n, err := strconv.Atoi(text)
	return text == "" || err == nil && n > 0 && n <= 65535
}

// Dialled returns the addresses to connect to, as HOST:PORT.
func (t Target) Dialled() []string {
	if len(t.Dial) > 0 {
		return slices.Clone(t.Dial)
	}
	return []string{net.JoinHostPort(t.Host, t.Port)}
}

// Addresses says how the calls of a load are divided among the addresses of a service.
type Addresses struct {
	Policy Policy   `json:"policy"`
	All    []string `json:"all"`               // IP:PORT, each once
	LookUp *LookUp  `json:"look_up,omitempty"` // found them, and is repeated during the load; nil means that they stay
}

// A Policy says which of several addresses get calls.
type Policy string

// The policies.
const (
	FirstAddress Policy = "first" // the first one that accepts a connection
	AllAddresses Policy = "all"   // all in turn: connections, and calls that share connections
	LeastCalls   Policy = "least" // each call goes to the address with the fewest calls under way
)

// Policies lists all policies.
var Policies = []string{string(FirstAddress), string(AllAddresses), string(LeastCalls)}

// check checks the policy for a target.
func (p Policy) check(t Target) error {
	switch {
	case p != "" && !slices.Contains(Policies, string(p)):
		return fmt.Errorf("--addresses: found %q: want %s", p, strings.Join(Policies, ", "))
	case p.usesSeveral() && t.Socket != "":
		return fmt.Errorf("--addresses %s: calls go to the unix socket %s: leave out one of the two", p, t.Socket)
	}
	return nil
}

func (p Policy) usesSeveral() bool { return p == AllAddresses || p == LeastCalls }

// Among returns how calls are divided among these addresses of the target, or nil if only the first one
// gets calls.
func (t *Target) Among(addresses []string) *Addresses {
	if !t.Policy.usesSeveral() {
		return nil
	}
	a := &Addresses{Policy: t.Policy, All: addresses}
	if t.LookUpEvery > 0 && t.hasName() {
		a.LookUp = t.LookUp()
	}
	return a
}

// LookUp returns the look-up of the target's names.
func (t *Target) LookUp() *LookUp {
	return &LookUp{Names: t.Dialled(), Server: t.NameServer, Every: t.LookUpEvery}
}

// Addressed returns all addresses of the definition.
func (d *Definition) Addressed() []string {
	if d.Addresses == nil {
		return []string{d.Address}
	}
	return d.Addresses.All
}
