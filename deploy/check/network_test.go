package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// connection is one that a pod opens to a port of a pod in the namespace.
type connection struct {
	from, to string // components
	port     int32
}

// allowed reports whether the policies let a connection pass, as a cluster's network does: a pod
// that no policy selects for a direction is open in it.
func allowed(policies []network.NetworkPolicy, c connection) (bool, error) {
	out, err := passes(policies, network.PolicyTypeEgress, c.from, c.to, c.port)
	if err != nil || !out {
		return false, err
	}
	return passes(policies, network.PolicyTypeIngress, c.to, c.from, c.port)
}

func passes(policies []network.NetworkPolicy, direction network.PolicyType, pod, peer string, port int32) (bool, error) {
	isolated := false
	for _, p := range policies {
		selected, err := selects(&p.Spec.PodSelector, pod)
		if err != nil {
			return false, err
		}
		if !selected || !slices.Contains(p.Spec.PolicyTypes, direction) {
			continue
		}
		isolated = true
		type rule struct {
			ports []network.NetworkPolicyPort
			peers []network.NetworkPolicyPeer
		}
		var rules []rule
		if direction == network.PolicyTypeIngress {
			for _, r := range p.Spec.Ingress {
				rules = append(rules, rule{r.Ports, r.From})
			}
		} else {
			for _, r := range p.Spec.Egress {
				rules = append(rules, rule{r.Ports, r.To})
			}
		}
		for _, r := range rules {
			open := len(r.ports) == 0 || slices.ContainsFunc(r.ports, func(p network.NetworkPolicyPort) bool { return p.Port.IntVal == port })
			known := len(r.peers) == 0
			for _, p := range r.peers {
				if p.NamespaceSelector != nil || p.IPBlock != nil || p.PodSelector == nil {
					return false, errors.New("has a peer outside the namespace: this test knows pods only")
				}
				selected, err := selects(p.PodSelector, peer)
				if err != nil {
					return false, err
				}
				known = known || selected
			}
			if open && known {
				return true, nil
			}
		}
	}
	return !isolated, nil
}

// stranger is a pod in the namespace that is not of the fleet.
const stranger = "stranger"

func selects(selector *meta.LabelSelector, component string) (bool, error) {
	s, err := meta.LabelSelectorAsSelector(selector)
	of := labels.Set{"app.kubernetes.io/name": "wirelab", "app.kubernetes.io/component": component}
	if component == stranger {
		of = labels.Set{}
	}
	return err == nil && s.Matches(of), err
}

// checkNetwork plays every connection between the kinds of pods against the policies.
func checkNetwork(t *testing.T, name, text string) error {
	t.Helper()
	var policies []network.NetworkPolicy
	for part := range strings.SplitSeq(text, "\n---\n") {
		var p network.NetworkPolicy
		if err := decode(part, &p); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		policies = append(policies, p)
		if len(p.Spec.PodSelector.MatchLabels) > 0 && !slices.ContainsFunc(pods(t), func(pod core.PodTemplateSpec) bool {
			return labels.SelectorFromSet(p.Spec.PodSelector.MatchLabels).Matches(labels.Set(pod.Labels))
		}) {
			return fmt.Errorf("%s selects no pod of the manifests", p.Name)
		}
	}
	const dns, ofHub, ofCluster, ofServer = 53, 4222, 6222, 43210
	kinds := []string{"hub", "server", "client", "controller", stranger}
	for _, from := range kinds {
		for _, to := range kinds {
			for _, port := range []int32{dns, ofHub, ofCluster, ofServer} {
				want := from != stranger && to == "hub" && port == ofHub ||
					from == "hub" && to == "hub" && port == ofCluster ||
					from == "client" && to == "server"
				got, err := allowed(policies, connection{from, to, port})
				if err != nil {
					return err
				}
				if got != want {
					return fmt.Errorf("from a %s to port %d of a %s: passes is %t, want %t", from, port, to, got, want)
				}
			}
		}
		if out, err := passes(policies, network.PolicyTypeEgress, from, "elsewhere", dns); err != nil || !out {
			return fmt.Errorf("a %s cannot ask a name server: %w", from, err)
		}
	}
	return nil
}

func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	const file = "kubernetes/network.yaml"
	if err := checkNetwork(t, file, read(t, file)); err != nil {
		t.Error(err)
	}
	mustFind(t, []mistake{
		{name: "a label that no pod has", file: file, old: "component: server\n  policyTypes", new: "component: servers\n  policyTypes", want: "selects no pod"},
		{name: "the hub for all", file: file, old: "              app.kubernetes.io/name: wirelab\n", new: "", want: "from a stranger to port 4222 of a hub"},
		{name: "another port", file: file, old: "app.kubernetes.io/name: wirelab\n      ports:\n        - port: 4222", new: "app.kubernetes.io/name: wirelab\n      ports:\n        - port: 4223", want: "to port 4222 of a hub"},
		{name: "nothing is closed", file: file, old: "podSelector: {}\n  policyTypes: [Ingress, Egress]", new: "podSelector: {}\n  policyTypes: [Egress]", want: "passes is true"},
		{name: "clients are cut off", file: file, old: "              app.kubernetes.io/component: client\n", new: "              app.kubernetes.io/component: controller\n", want: "from a client"},
		{name: "no names", file: file, old: "port: 53\n          protocol: UDP\n        - port: 53", new: "port: 54\n        - port: 55", want: "name server"},
	}, checkNetwork)
}
