package check

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize builds the example of three hubs as kubectl does, with another text of its patch.
func kustomize(t *testing.T, patch string) (map[string]manifest, error) {
	t.Helper()
	files := filesys.MakeFsInMemory()
	texts := map[string]string{"three-hubs/hub.yaml": patch}
	for _, name := range append(manifestFiles(t), "kustomization.yaml") {
		texts["kubernetes/"+name] = read(t, "kubernetes/"+name)
	}
	texts["three-hubs/kustomization.yaml"] = read(t, "three-hubs/kustomization.yaml")
	for name, text := range texts {
		if err := files.WriteFile("/deploy/"+name, []byte(text)); err != nil {
			return nil, err
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/deploy/three-hubs")
	if err != nil {
		return nil, err
	}
	all := map[string]manifest{}
	for _, object := range built.Resources() {
		text, err := object.AsYAML()
		if err != nil {
			return nil, err
		}
		m, err := parse(string(text))
		if err != nil {
			return nil, err
		}
		all[m.kind+" "+m.object.GetName()] = m
	}
	return all, nil
}

// values returns the values of a flag.
func values(args []string, flag string) []string {
	var found []string
	for i, a := range args[:len(args)-1] {
		if a == flag {
			found = append(found, args[i+1])
		}
	}
	return found
}

// built is the number of objects of a fleet.
const built = 13

// checkThreeHubs checks the hub of the example of three.
func checkThreeHubs(t *testing.T, _, text string) error {
	t.Helper()
	all, err := kustomize(t, text)
	if err != nil {
		return err
	}
	m := all["StatefulSet wirelab-hub"]
	hub, ok := m.object.(*apps.StatefulSet)
	if !ok || len(all) != built {
		return fmt.Errorf("kustomize builds %d objects, want the hub and others, %d in all", len(all), built)
	}
	if err := m.check(); err != nil {
		return err
	}
	c := hub.Spec.Template.Spec.Containers[0]
	service := hub.Spec.ServiceName + "." + namespace + ".svc.cluster.local"
	advertised, routes := values(c.Args, "--advertise"), values(c.Args, "--route")
	if !slices.Contains(advertised, service) {
		return fmt.Errorf("its certificate does not have %s, which agents dial", service)
	}
	for i := range int(*hub.Spec.Replicas) {
		pod := hub.Name + "-" + strconv.Itoa(i) + "." + service
		if !slices.Contains(advertised, pod) || !slices.Contains(routes, pod+":6222") {
			return fmt.Errorf("the pod %s is not among the names %v or the routes %v", pod, advertised, routes)
		}
	}
	keys := values(c.Args, "--keys")
	switch {
	case *hub.Spec.Replicas != 3 || len(routes) != 3:
		return fmt.Errorf("%d hubs with %d routes, want three", *hub.Spec.Replicas, len(routes))
	case hub.Spec.PodManagementPolicy != apps.ParallelPodManagement:
		return errors.New("starts one hub after the other, and the first waits for the next")
	case !slices.Equal(values(c.Args, "--hub"), []string{"$(POD_NAME)"}) || c.Env[0].Name != "POD_NAME":
		return errors.New("the hubs do not have their pods' names")
	case len(keys) != 1 || !slices.ContainsFunc(m.template.Spec.Volumes, func(v core.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == "wirelab-keys"
	}):
		return errors.New("the hubs do not share the keys of the secret")
	case !slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return strings.HasPrefix(keys[0], m.MountPath+"/") }):
		return fmt.Errorf("%s is not mounted", keys[0])
	case !slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.ContainerPort == 6222 }):
		return errors.New("the pod does not list the port of the other hubs")
	case c.Image != image(t):
		return fmt.Errorf("runs %s, and the others %s", c.Image, image(t))
	}
	return nil
}

func TestThreeHubs(t *testing.T) {
	t.Parallel()
	const file = "three-hubs/hub.yaml"
	if err := checkThreeHubs(t, file, read(t, file)); err != nil {
		t.Error(err)
	}
	var k kustomization
	if err := decode(read(t, "three-hubs/kustomization.yaml"), &k); err != nil {
		t.Error(err)
	}
	if !slices.Equal(k.Resources, []string{"../kubernetes"}) || len(k.Patches) != 1 || k.Patches[0].Path != "hub.yaml" {
		t.Errorf("it has %+v, want the fleet and the patch of its hub", k)
	}
	mustFind(t, []mistake{
		{name: "an unknown key", file: file, old: "replicas:", new: "replica:", want: `unknown field "spec.replica"`},
		{name: "two hubs", file: file, old: "replicas: 3", new: "replicas: 2", want: "want three"},
		{name: "more hubs than names", file: file, old: "replicas: 3", new: "replicas: 4", want: "wirelab-hub-3"},
		{name: "one after the other", file: file, old: "podManagementPolicy: Parallel", new: "podManagementPolicy: OrderedReady", want: "waits for the next"},
		{name: "another route", file: file, old: "wirelab-hub-1.wirelab-hub.wirelab.svc.cluster.local:6222", new: "wirelab-hub-1.wirelab:6222", want: "the pod wirelab-hub-1"},
		{name: "a name that is not there", file: file, old: "            - wirelab-hub.wirelab.svc.cluster.local\n", new: "            - hub.wirelab.svc.cluster.local\n", want: "which agents dial"},
		{name: "keys elsewhere", file: file, old: "mountPath: /run/secrets/wirelab", new: "mountPath: /run/keys", want: "is not mounted"},
		{name: "other keys", file: file, old: "secretName: wirelab-keys", new: "secretName: wirelab-key", want: "share the keys"},
		{name: "one name for all", file: file, old: "$(POD_NAME)", new: "hub", want: "their pods' names"},
	}, checkThreeHubs)
}

// The budget keeps the only hub, and of three lets one go, since two are enough.
func TestHubsAreKept(t *testing.T) {
	t.Parallel()
	const file = "kubernetes/hub.yaml"
	check := func(_ *testing.T, _, text string) error {
		all, err := parseAll(text)
		if err != nil {
			return err
		}
		for _, m := range all {
			budget, ok := m.object.(*policy.PodDisruptionBudget)
			if !ok {
				continue
			}
			for hubs, want := range map[int]int{1: 1, 3: 2} {
				kept, err := intstr.GetScaledValueFromIntOrPercent(budget.Spec.MinAvailable, hubs, true)
				if err != nil || kept != want {
					return fmt.Errorf("of %d hubs %d are kept (%w), want %d", hubs, kept, err, want)
				}
			}
			if selected, err := selects(budget.Spec.Selector, "hub"); err != nil || !selected {
				return fmt.Errorf("the budget does not select the hub (%w)", err)
			}
			return nil
		}
		return errors.New("no budget keeps the hub")
	}
	if err := check(t, file, read(t, file)); err != nil {
		t.Error(err)
	}
	mustFind(t, []mistake{
		{name: "too few", file: file, old: "60%", new: "30%", want: "of 3 hubs 1 are kept"},
		{name: "too many", file: file, old: "60%", new: "70%", want: "of 3 hubs 3 are kept"},
	}, check)
}
