package protocol

// Permissions are the subjects that the owner of credentials may use at a NATS server.
type Permissions struct {
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
}

// PermissionsOf returns what a role with this name may do. It may do nothing else.
//
// An agent may not even answer on the reply subject of a request: whoever may publish on a subject
// that he hears could name any subject there. Nor does the server acknowledge what an agent stores,
// since the agent could name any subject for that, too.
func PermissionsOf(project, role, name string) Permissions {
	c := &Credentials{Project: project, Role: role, Name: name}
	cards := CardStream(project)
	switch role {
	case RoleJoin:
		return Permissions{Publish: []string{c.GateSubject(JoinQuestion, name)}, Subscribe: []string{c.InboxPrefix() + ".>"}}
	case RoleAgent:
		return Permissions{
			Publish:   []string{c.CardSubject(name), c.KeptSubject(name), c.SampleSubject(name), c.LiveSubject(name, "*", "*"), c.AnswerSubject(name, "*")},
			Subscribe: []string{toSubject(project, name, "*"), c.CardSubject(name)},
		}
	case RoleController:
		may := Permissions{
			Publish:   []string{toSubject(project, "*", "*"), "$JS.API.STREAM.INFO." + cards, ListSubject(project)},
			Subscribe: []string{c.InboxPrefix() + ".>", c.FromSubjects("*")},
		}
		for _, question := range ControllerQuestions() {
			may.Publish = append(may.Publish, c.GateSubject(question))
		}
		return may
	case RolePrepare:
		return Permissions{
			Publish:   []string{"$JS.API.INFO", "$JS.API.STREAM.INFO." + cards, "$JS.API.STREAM.CREATE." + cards, "$JS.API.STREAM.UPDATE." + cards},
			Subscribe: []string{c.InboxPrefix() + ".>"},
		}
	}
	return Permissions{}
}
