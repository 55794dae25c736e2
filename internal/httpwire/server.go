package httpwire

// NewServer makes a server that has not begun to listen.
func NewServer(plan ServerPlan) (Server, error) {
	return newH3Server(plan)
}
