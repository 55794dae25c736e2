package scenario

import "github.com/goccy/go-yaml/ast"

// Check says what is wrong with a scenario that was not read from a file.
func (s *Scenario) Check(words Vocabulary) error {
	c := checker{tree: &ast.MappingNode{}, words: words}
	if problem := c.scenario(s); problem != nil {
		return problem
	}
	return nil
}
