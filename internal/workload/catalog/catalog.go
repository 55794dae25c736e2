// Package catalog is the one list of workloads. A new workload is a folder of
// its own and a line here.
package catalog

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/workload"
	"wirelab.dev/internal/workload/echo"
)

// Workloads returns all workloads, the usual one first.
func Workloads() []workload.Workload {
	return []workload.Workload{
		echo.Workload{},
	}
}

// Find returns the workload of that name.
func Find(name string) (workload.Workload, error) {
	var names []string
	for _, w := range Workloads() {
		if w.Name() == name {
			return w, nil
		}
		names = append(names, w.Name())
	}
	return nil, fmt.Errorf("workload %q: there is none of that name; there is %s", name, strings.Join(names, ", "))
}
