package stacktest

// Suites are those that a stack's tests run, by their functions' names.
var Suites = []string{"Run", "RunSecurity", "RunLeaks"}

// Skips say which suites a stack's tests leave out, and why. The test of package
// catalog reads them from the source, and fails where a suite is neither run nor
// listed.
type Skips []Skip

// Skip is one suite that a stack leaves out.
type Skip struct{ Stack, Suite, Reason string }
