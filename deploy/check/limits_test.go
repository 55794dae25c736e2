package check

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quotaClients is the number of clients that the quota is for, by the comment in limits.yaml.
const quotaClients = 16

// checkLimits holds the quota against what three hubs, a server, many clients and a run take, and
// the limits of a container against each container.
func checkLimits(t *testing.T, name, text string) error {
	t.Helper()
	first, second, _ := strings.Cut(text, "\n---\n")
	var (
		quota  core.ResourceQuota
		limits core.LimitRange
	)
	if err := errors.Join(decode(first, &quota), decode(second, &limits)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	needs := core.ResourceList{}
	add := func(what core.ResourceName, q resource.Quantity, times int) {
		sum := needs[what]
		for range times {
			sum.Add(q)
		}
		needs[what] = sum
	}
	one := resource.MustParse("1")
	for _, file := range []string{"hub.yaml", "server.yaml", "clients.yaml", "compare.yaml"} {
		all, err := parseAll(read(t, "kubernetes/"+file))
		if err != nil {
			return err
		}
		times := map[string]int{"hub.yaml": 3, "clients.yaml": quotaClients}[file]
		for _, m := range all {
			times := max(1, times)
			for _, claim := range m.claims {
				add(core.ResourceRequestsStorage, *claim.Resources.Requests.Storage(), times)
				add(core.ResourcePersistentVolumeClaims, one, times)
			}
			if m.template == nil {
				continue
			}
			add(core.ResourcePods, one, times)
			for _, c := range m.template.Spec.Containers {
				add(core.ResourceRequestsCPU, *c.Resources.Requests.Cpu(), times)
				add(core.ResourceRequestsMemory, *c.Resources.Requests.Memory(), times)
				add(core.ResourceLimitsMemory, *c.Resources.Limits.Memory(), times)
				if most := limits.Spec.Limits[0].Max[core.ResourceMemory]; most.Cmp(*c.Resources.Limits.Memory()) < 0 {
					return fmt.Errorf("%s may have %s of memory, and the LimitRange allows %s", c.Name, c.Resources.Limits.Memory(), &most)
				}
			}
		}
	}
	for what, need := range needs {
		if has, ok := quota.Spec.Hard[what]; !ok || has.Cmp(need) < 0 {
			return fmt.Errorf("the quota of %s is %s, and %d clients need %s", what, &has, quotaClients, &need)
		}
	}
	if _, ok := quota.Spec.Hard[core.ResourceLimitsCPU]; ok {
		return errors.New("a quota of limits.cpu refuses pods without that limit, and agents may have none")
	}
	if _, ok := limits.Spec.Limits[0].Default[core.ResourceCPU]; ok {
		return errors.New("a default limit of CPU time stops workers")
	}
	return nil
}

func TestLimits(t *testing.T) {
	t.Parallel()
	const file = "kubernetes/limits.yaml"
	if err := checkLimits(t, file, read(t, file)); err != nil {
		t.Error(err)
	}
	mustFind(t, []mistake{
		{name: "few pods", file: file, old: `pods: "24"`, new: `pods: "20"`, want: "the quota of pods is 20"},
		{name: "few CPUs", file: file, old: `"38"`, new: `"30"`, want: "the quota of requests.cpu is 30"},
		{name: "little memory", file: file, old: "limits.memory: 44Gi", new: "limits.memory: 20Gi", want: "the quota of limits.memory"},
		{name: "no storage", file: file, old: "    requests.storage: 40Gi\n", new: "", want: "the quota of requests.storage"},
		{name: "small containers", file: file, old: "memory: 4Gi", new: "memory: 1Gi", want: "the LimitRange allows 1Gi"},
		{name: "limits of CPU time", file: file, old: "      default:\n", new: "      default:\n        cpu: 1\n", want: "stops workers"},
		{name: "a quota of such limits", file: file, old: "    pods:", new: "    limits.cpu: 50\n    pods:", want: "agents may have none"},
		{name: "an unknown key", file: file, old: "  hard:", new: "  hards:", want: "hards"},
	}, checkLimits)
}
