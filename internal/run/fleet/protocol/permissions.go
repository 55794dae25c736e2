package protocol

// Permissions are the subjects that the owner of credentials may use at a NATS server.
type Permissions struct {
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	Answers   bool     `json:"answers"` // may answer a request, on the request's reply subject
}

// PermissionsOf returns what a role with this name may do. It may do nothing else.
func PermissionsOf(project, role, name string) Permissions {
	c := &Credentials{Project: project, Role: role, Name: name}
	own := Permissions{Subscribe: []string{c.InboxPrefix() + ".>"}}
	switch role {
	case RoleJoin:
		own.Publish = []string{c.GateSubject(JoinQuestion, name)}
	case RoleAgent:
		own.Answers = true
		own.Subscribe = append(own.Subscribe, toSubject(project, name, "*"))
		own.Publish = []string{
			c.CardSubject(name), c.KeptSubject(name), c.SampleSubject(name), c.LiveSubject(name, "*", "*"),
			c.NameSubject(name), // it asks itself, so another process with the name answers
		}
	case RoleController:
		own.Subscribe = append(own.Subscribe, c.LiveSubject("*", "*", "*"))
		own.Publish = []string{toSubject(project, "*", "*")}
		for _, question := range ControllerQuestions() {
			own.Publish = append(own.Publish, c.GateSubject(question))
		}
		for _, s := range Streams() {
			stream := s.Name(project)
			own.Publish = append(own.Publish,
				"$JS.API.STREAM.INFO."+stream, "$JS.API.CONSUMER.CREATE."+stream+".>", "$JS.API.CONSUMER.INFO."+stream+".*",
				"$JS.API.CONSUMER.MSG.NEXT."+stream+".*", "$JS.API.CONSUMER.DELETE."+stream+".*", "$JS.FC."+stream+".>",
			)
		}
		own.Publish = append(own.Publish, "$JS.API.STREAM.PURGE."+Samples.Name(project))
	case RolePrepare:
		own.Publish = []string{"$JS.API.INFO"}
		for _, s := range Streams() {
			for _, verb := range []string{"INFO", "CREATE", "UPDATE"} {
				own.Publish = append(own.Publish, "$JS.API.STREAM."+verb+"."+s.Name(project))
			}
		}
	}
	return own
}
