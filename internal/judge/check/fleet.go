package check

import (
	"cmp"
	"fmt"
	"strings"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// A scope names the parts of a fleet's trial that a check judges. Each client of a fleet is judged
// like a single client. So one saturated client makes the trial invalid.
type scope int

const (
	scopeTrial           scope = iota // all calls together
	scopeClients                      // each client
	scopeEnds                         // each client, and the server
	scopeTrialAndClients              // all calls together, and each client
)

// A member is a part of a trial that ran on one machine.
type member struct {
	agent string
	trial
}

// members returns the parts of a trial that a check judges.
func (t trial) members(of scope) []member {
	var all []member
	if of == scopeTrial || of == scopeTrialAndClients {
		all = append(all, member{"", t.withAllClients()})
	}
	if of == scopeTrial {
		return all
	}
	for i := range t.Fleet.Clients {
		all = append(all, t.clientMember(&t.Fleet.Clients[i]))
	}
	if of == scopeEnds && t.Fleet.Server.Name != "" {
		all = append(all, t.serverMember())
	}
	return all
}

// withAllClients returns the trial of all clients, with the busy share of the busiest client.
func (t trial) withAllClients() trial {
	r := *t.Record
	r.Client.Busy = t.busiestShare()
	return trial{Record: &r, limits: t.limits}
}

func (t trial) busiestShare() (most *float64) {
	for i := range t.Fleet.Clients {
		if busy := t.Fleet.Clients[i].Process.Busy; busy != nil && (most == nil || *busy > *most) {
			most = busy
		}
	}
	return most
}

// clientMember returns the part of a trial that one client and its machine recorded. The
// distributions cover all clients, because records have none per client. The server's busy share is
// included, and the server's CPUs too if the server ran on the same machine.
func (t trial) clientMember(c *record.FleetClient) member {
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

func (t trial) serverMember() member {
	r := *t.Record
	r.Client = record.Process{Busy: t.busiestShare()}
	return member{t.Fleet.Server.Name, trial{Record: &r, limits: t.limits, only: "server"}}
}

// judgeFleet judges each part and returns the worst result, with its agent's name.
func (c check) judgeFleet(t trial) record.Check {
	var worst record.Check
	var by string
	alike := 0
	for i, m := range t.members(c.fleet) {
		made := c.judge(m.trial)
		switch {
		case i == 0 || c.isWorse(made, worst):
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

// isWorse reports whether a is worse than b. It compares levels first, and then figures.
func (c check) isWorse(a, b record.Check) bool {
	if by := cmp.Compare(a.Level.Severity(), b.Level.Severity()); by != 0 {
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

// checkClocks checks that the windows, or the slices, of a fleet's clients coincide. Latencies do not
// depend on this, because each latency uses one machine's clock.
func (t trial) checkClocks() record.Check {
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
	window, name := float64(max(1, t.WindowNS)), "window"
	if len(t.Slices) > 0 {
		window, name = window/float64(len(t.Slices)), "mean slice"
	}
	off, apart := float64(worst.Clock.ErrorNS), float64(t.Fleet.OpenedApartNS)
	c.Figure = new(max(off, apart) / window)
	said := []string{"the windows opened within " + units.Time(apart) + " of each other"}
	if worst.Name != "" {
		said = append([]string{fmt.Sprintf("the error of the clock of %s is at most %s, the largest error of all agents", worst.Name, units.Time(off))}, said...)
	}
	level := t.limits.Apart.level(*c.Figure)
	setVerdict(&c, level, "%s; this is at most %s of the %s", strings.Join(said, "; "), units.Percent(*c.Figure), name)
	if level != record.OK {
		c.Detail += ", in which only part of the load ran"
	}
	return c
}

// ClientChecks holds the checks of one client of a fleet.
type ClientChecks struct {
	*record.FleetClient
	Checks []record.Check
}

// JudgeClients judges each client of a fleet separately. It returns nil for trials without a fleet.
func JudgeClients(r *record.Record, limits Limits) []ClientChecks {
	if r.Fleet == nil || r.Failure != "" {
		return nil
	}
	var all []ClientChecks
	for i := range r.Fleet.Clients {
		one := ClientChecks{FleetClient: &r.Fleet.Clients[i]}
		m := trial{Record: r, limits: limits}.clientMember(one.FleetClient)
		for _, c := range checks {
			if c.fleet == scopeTrial {
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
