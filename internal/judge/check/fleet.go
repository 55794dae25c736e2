package check

import (
	"cmp"
	"fmt"
	"strings"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// A scope names the parts of a trial that a check judges if agents of a fleet ran its ends. Each
// client and its machine is judged by the same rules as a single one: a client that was its own
// bottleneck spoils the trial, even if the others were fine.
type scope int

const (
	ofTrial           scope = iota // all calls together
	ofClients                      // each client
	ofEnds                         // each client, and the server
	ofTrialAndClients              // all calls together, and each client
)

// A member is a part of a trial that ran on one machine.
type member struct {
	agent string
	trial
}

// members returns the parts of a trial that a check judges.
func (t trial) members(of scope) []member {
	var all []member
	if of == ofTrial || of == ofTrialAndClients {
		all = append(all, member{"", t.whole()})
	}
	if of == ofTrial {
		return all
	}
	for i := range t.Fleet.Clients {
		all = append(all, t.member(&t.Fleet.Clients[i]))
	}
	if of == ofEnds && t.Fleet.Server.Name != "" {
		all = append(all, t.server())
	}
	return all
}

// whole returns the trial with all calls. Its client is as busy as the busiest client.
func (t trial) whole() trial {
	r := *t.Record
	r.Client.Busy = t.busiest()
	return trial{Record: &r, limits: t.limits}
}

func (t trial) busiest() (most *float64) {
	for i := range t.Fleet.Clients {
		if busy := t.Fleet.Clients[i].Process.Busy; busy != nil && (most == nil || *busy > *most) {
			most = busy
		}
	}
	return most
}

// member returns the trial as one client and its machine recorded it. It has the distributions of
// all clients, because records keep none per client. From the server it has the busy share and, on
// the same machine, the CPUs.
func (t trial) member(c *record.FleetClient) member {
	r := *t.Record
	r.Cell.Clients = c.Clients
	r.Cell.Load.RatePerSecond *= float64(c.Clients) / float64(max(1, t.Cell.Clients))
	r.WindowNS = c.WindowNS
	r.Requests, r.Completed, r.Straddling = c.Requests, c.Completed, c.Straddling
	r.StraddlingNS, r.BacklogNS = c.StraddlingNS, c.BacklogNS
	r.InFlight, r.Active = c.InFlight, c.Active
	r.Errors = nil
	if c.Failed > 0 {
		r.Errors = []record.ErrorCount{{Count: c.Failed}}
	}
	r.WarmUp, r.Pacing = c.WarmUp, c.Pacing
	r.Client, r.Connections, r.Engine, r.Host, r.Limits = c.Process, c.Connections, c.Engine, c.Host, c.Limits
	r.Server = record.Process{Busy: t.Server.Busy, UserNS: t.Server.UserNS, SystemNS: t.Server.SystemNS}
	if c.Boot != "" && c.Boot == t.Fleet.Server.Boot {
		r.Server.CPUs, r.Server.AllowedCPUs = t.Server.CPUs, t.Server.AllowedCPUs
	}
	r.Intervals, r.Course, r.Link = nil, nil, nil
	return member{c.Name, trial{Record: &r, limits: t.limits, only: "client", part: c}}
}

// server returns the trial as the server's machine recorded it.
func (t trial) server() member {
	r := *t.Record
	r.Client = record.Process{Busy: t.busiest()}
	return member{t.Fleet.Server.Name, trial{Record: &r, limits: t.limits, only: "server"}}
}

// ofFleet returns the worst result of the parts, with its agent's name. Unknown parts are skipped.
func (c check) ofFleet(t trial) record.Check {
	var worst record.Check
	var by string
	alike := 0
	for i, m := range t.members(c.fleet) {
		made := c.judge(m.trial)
		switch {
		case i == 0 || c.worse(made, worst):
			if made.Level != worst.Level {
				alike = 0
			}
			alike++
			worst, by = made, m.agent
		case made.Level == worst.Level:
			alike++
		}
	}
	if by == "" {
		return worst
	}
	worst.Detail = by + ": " + worst.Detail
	if alike > 1 && (worst.Level == record.Warning || worst.Level == record.Invalid) {
		others := "another agent reports"
		if alike > 2 {
			others = fmt.Sprintf("%d other agents report", alike-1)
		}
		worst.Detail += "; " + others + " a similar result"
	}
	return worst
}

// worse reports whether verdict a is worse than b: by level, then by figure.
func (c check) worse(a, b record.Check) bool {
	if by := cmp.Compare(a.Level.Gravity(), b.Level.Gravity()); by != 0 {
		return by > 0
	}
	if a.Figure == nil || b.Figure == nil || a.Unit != b.Unit {
		return false
	}
	if c.less {
		return *a.Figure < *b.Figure
	}
	return *a.Figure > *b.Figure
}

// clocks checks that the windows of a fleet's clients coincide. Latencies do not depend on this,
// because each uses one machine's clock.
func (t trial) clocks() record.Check {
	c := record.Check{Unit: "share", Limit: &t.limits.Apart.Invalid}
	agents := []record.Agent{t.Fleet.Server}
	for i := range t.Fleet.Clients {
		agents = append(agents, t.Fleet.Clients[i].Agent)
	}
	worst := agents[0]
	for _, a := range agents {
		if a.Clock.ErrorNS > worst.Clock.ErrorNS {
			worst = a
		}
	}
	window := float64(max(1, t.WindowNS))
	off, apart := float64(worst.Clock.ErrorNS), float64(t.Fleet.OpenedApartNS)
	c.Figure = new(max(off, apart) / window)
	said := []string{"the windows opened within " + units.Time(apart) + " of each other"}
	if worst.Name != "" {
		said = append([]string{fmt.Sprintf("the clock of %s is known within %s, the others better", worst.Name, units.Time(off))}, said...)
	}
	level := t.limits.Apart.level(*c.Figure)
	verdict(&c, level, "%s: %s of the window at most", strings.Join(said, "; "), percent(*c.Figure))
	if level != record.OK {
		c.Detail += ", with only part of the load"
	}
	return c
}

// ClientChecks holds the checks of one client of a fleet.
type ClientChecks struct {
	*record.FleetClient
	Checks []record.Check
}

// Clients judges each client of a fleet separately. Other trials have none.
func Clients(r *record.Record, limits Limits) []ClientChecks {
	if r.Fleet == nil || r.Failure != "" {
		return nil
	}
	var all []ClientChecks
	for i := range r.Fleet.Clients {
		one := ClientChecks{FleetClient: &r.Fleet.Clients[i]}
		m := trial{Record: r, limits: limits}.member(one.FleetClient)
		for _, c := range checks {
			if c.fleet == ofTrial {
				continue
			}
			made := c.judge(m.trial)
			made.Name = c.name
			one.Checks = append(one.Checks, made)
		}
		all = append(all, one)
	}
	return all
}
