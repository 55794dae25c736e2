package protocol

import (
	"fmt"
	"regexp"
)

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// CheckName checks an agent's name. It becomes part of subjects, in which dots are separators.
func CheckName(name string) error { return checkWord("an agent's name", name) }

// CheckProject checks a fleet's name.
func CheckProject(name string) error { return checkWord("a fleet's name", name) }

func checkWord(what, name string) error {
	if nameForm.MatchString(name) {
		return nil
	}
	const shown = 80
	if len(name) > shown {
		name = name[:shown] + "…"
	}
	return fmt.Errorf("%s %q: want 1 to 63 of a-z, 0-9, _ and -, and a letter or a digit first", what, name)
}

// OrderSubject returns the subject on which an agent receives orders.
func (c *Credentials) OrderSubject(agent string) string { return c.to(agent, "order") }

// ClockSubject returns the subject on which an agent answers questions for its clock.
func (c *Credentials) ClockSubject(agent string) string { return c.to(agent, "clock") }

// LiveSubject returns the subject of a worker's messages that may be lost. Each part may be "*".
func (c *Credentials) LiveSubject(agent, run, worker string) string {
	return fmt.Sprintf("wl.%s.from.%s.live.%s.%s", c.Project, agent, run, worker)
}

// KeptSubject returns the subject of a worker's messages that must not be lost. Each part may be
// "*".
func (c *Credentials) KeptSubject(agent, run, worker string) string {
	return fmt.Sprintf("wl.%s.from.%s.kept.%s.%s", c.Project, agent, run, worker)
}

// KeptStream returns the stream of messages that must not be lost.
func (c *Credentials) KeptStream() string { return KeptStream(c.Project) }

// AgentsBucket returns the key-value bucket of the agents' cards.
func (c *Credentials) AgentsBucket() string { return AgentsBucket(c.Project) }

// SamplesStore returns the object store of samples.
func (c *Credentials) SamplesStore() string { return SamplesStore(c.Project) }

// InboxPrefix returns the beginning of the subjects for answers to the role's requests.
func (c *Credentials) InboxPrefix() string { return InboxPrefix(c.Project, c.Role()) }

func (c *Credentials) to(agent, what string) string {
	return fmt.Sprintf("wl.%s.to.%s.%s", c.Project, agent, what)
}

// KeptStream returns the stream of a project's messages that must not be lost.
func KeptStream(project string) string { return "wl_" + project + "_kept" }

// AgentsBucket returns the key-value bucket of a project's cards.
func AgentsBucket(project string) string { return "wl_" + project + "_agents" }

// SamplesStore returns the object store of a project's samples.
func SamplesStore(project string) string { return "wl_" + project + "_samples" }

// InboxPrefix returns the beginning of the subjects for answers to the requests of a role.
func InboxPrefix(project, role string) string { return "wl." + project + ".inbox." + role }
