package stack

import (
	"crypto/tls"
	"strconv"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
)

// SettingsReporter is an optional interface of a Stack that changes its library's
// defaults.
type SettingsReporter interface {
	// Settings returns the settings of a variant's server, and of its client for
	// the target. The target's address may be empty. The values come from the
	// configuration that the two ends are made from.
	Settings(scenario.Variant, Target) ([]tuning.Setting, error)
}

// SettingsOf lists the settings of a variant that are not a library's default, at both
// ends: the stack's own, and those that all stacks share.
func SettingsOf(s Stack, v scenario.Variant, t Target) ([]tuning.Setting, error) {
	var all []tuning.Setting
	if reporter, ok := s.(SettingsReporter); ok {
		own, err := reporter.Settings(v, t)
		if err != nil {
			return nil, err
		}
		all = own
	}
	o := ReadOptions(s, v)
	if s.Info().hasTLS() {
		all = append(all, SecurityOf(o).settings(t)...)
	}
	if !s.Info().QUIC { // a QUIC client has one socket, and needs no sources
		all = append(all, t.Dialer.Settings(t.Address)...)
	}
	return tuning.Join(tuning.At(tuning.Server, all), tuning.At(tuning.Client, all)), o.Err()
}

func (s Security) settings(t Target) []tuning.Setting {
	if !s.On {
		return nil
	}
	all := s.Choice.Settings()
	if s.Handshakes > 0 {
		all = append(all, tuning.Setting{Side: tuning.Server, Name: "handshakes in progress", Value: strconv.Itoa(s.Handshakes), Default: "no bound", Why: "the variant's option handshakes"})
	}
	if t.Lifecycle == conn.Resumed || t.Lifecycle == conn.Early {
		all = append(all, tuning.Setting{Side: tuning.Client, Name: "tls.Config.ClientSessionCache", Value: "one session, had before the first call", Default: "none", Why: "the connection mode resumes"})
	}
	return append(all, t.Trust.Settings()...)
}

// handshakeSetting returns the setting for the timeout of handshakes, which
// conn.ServerHandshake does in place of the library.
func handshakeSetting(name, library string) tuning.Setting {
	return tuning.Setting{Side: tuning.Server, Name: name, Value: conn.HandshakeTimeout.String(), Default: library, Why: "a silent peer is disconnected after the same time on every stack"}
}

// MessageLimit returns the setting of a stack whose library has no message limit.
func MessageLimit(bytes int) []tuning.Setting {
	return []tuning.Setting{{Side: tuning.Both, Name: "message limit", Value: strconv.Itoa(bytes), Default: "no limit", Why: "one message limit for all stacks"}}
}

// Configured returns a configuration that only says whether TLS is used: package
// httpwire needs no more to list its settings.
func (s Security) Configured() *tls.Config {
	if !s.On {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS13}
}
