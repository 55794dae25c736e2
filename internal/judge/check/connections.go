package check

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// connections checks that the connections were opened as the mode says. A pool may
// have fewer. Connections that were replaced before the window do not matter.
func (t trial) connections() record.Check {
	made := t.Connections
	if mode, err := scenario.ParseConnection(made.Mode); err == nil && mode.Mode.PerRequest() {
		return t.perRequest(mode.Mode)
	}
	c := record.Check{Level: record.OK, Unit: "connections"}
	opened, want := float64(made.Opened), float64(made.Want)
	c.Figure, c.Limit = &opened, &want
	c.Detail = fmt.Sprintf("%s: %d wanted, %d opened, %d of them in the window; %d attempts failed", made.Mode, made.Want, made.Opened, made.During, made.Failed)
	growing := strings.HasPrefix(made.Mode, string(scenario.Pool)) && opened <= want
	if strings.HasPrefix(made.Mode, string(scenario.Auto)) && opened > 0 && made.Failed == 0 {
		return c // it opens and closes them as it finds useful
	}
	switch {
	case t.Cell.Kind().MayFail && opened >= want && made.During > 0: // it is the service that ended them
		c.Level = record.Warning
		c.Detail += ": the service ended connections, and calls waited for new ones"
	case !growing && (opened < want || made.During > 0):
		c.Level = record.Invalid
	case opened != want || made.During > 0 || made.Failed > 0:
		c.Level = record.Warning
	}
	return c
}

// perRequest checks that every answered request opened a connection, with the kind of
// handshake that the mode asks for. A connection that is opened at an edge of the
// window may belong to a request on its other side.
func (t trial) perRequest(mode scenario.ConnectionMode) record.Check {
	c := record.Check{Level: record.OK, Unit: "connections"}
	made := t.Connections
	opened, answered := float64(made.During), float64(t.Requests-t.Failed())
	c.Figure, c.Limit = &opened, &answered
	c.Detail = fmt.Sprintf("%s: %d connections for %.0f answers", mode, made.During, answered)
	edges := 2*float64(t.Cell.Clients) + t.limits.Edge*float64(t.Requests)
	switch {
	case opened < answered-edges:
		c.Level = record.Invalid
		c.Detail += ": requests shared connections"
		return c
	case opened > float64(t.Requests)+edges:
		c.Level = record.Warning
		c.Detail += ": more were opened than requests were sent"
	}
	all, wrong, what := handshakes(made, mode)
	if all == 0 {
		if mode != scenario.New {
			c.Level = record.Invalid
			c.Detail += ", and no TLS session was resumed"
		}
		return c
	}
	c.Detail += fmt.Sprintf("; %d handshakes, %d of them %s", all, wrong, what)
	if level := anyUpTo(t.limits.Handshakes).level(float64(wrong) / float64(all)); level != record.OK {
		c.Level = level
	}
	return c
}

// handshakes counts all handshakes and those that are not of the kind that the mode
// asks for, and names that other kind.
func handshakes(made record.Connections, mode scenario.ConnectionMode) (all, wrong int64, what string) {
	all = made.Full + made.Resumed
	switch mode {
	case scenario.Resumed:
		return all, made.Full, "full"
	case scenario.Early:
		return all, all - made.Early, "without early data that the server took"
	default:
		return all, made.Resumed, "resumed"
	}
}
