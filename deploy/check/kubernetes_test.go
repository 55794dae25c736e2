package check

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// namespace of all manifests.
const namespace = "wirelab"

// applied apart are the manifests that kustomization.yaml leaves out, and why.
var appliedApart = map[string]string{
	"clients-anywhere.yaml": "in place of clients.yaml",
	"compare.yaml":          "a run on the fleet",
	"secrets.example.yaml":  "has no secrets",
}

// kustomization holds the fields that these files use, so that another is an unknown one.
type kustomization struct {
	meta.TypeMeta `json:",inline"`
	Resources     []string `json:"resources"`
	Patches       []struct {
		Path string `json:"path"`
	} `json:"patches"`
}

// decode reads YAML into a type of Kubernetes, as its server does with strict validation: no
// unknown key, none twice, none in other letters.
func decode(text string, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	unknown, err := strictjson.UnmarshalStrict(asJSON, into)
	return errors.Join(append(unknown, err)...)
}

// manifest is one object.
type manifest struct {
	kind   string
	object meta.Object
	// Of what makes pods:
	template *core.PodTemplateSpec
	selector *meta.LabelSelector
	// What it claims for itself or for each of its pods:
	claims []core.PersistentVolumeClaimSpec
}

func parse(text string) (manifest, error) {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
		return manifest{}, err
	}
	m := manifest{kind: kind.Kind}
	var err error
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Namespace":
		m.object, err = into(text, new(core.Namespace))
	case "v1 Secret":
		m.object, err = into(text, new(core.Secret))
	case "v1 Service":
		m.object, err = into(text, new(core.Service))
	case "v1 ConfigMap":
		m.object, err = into(text, new(core.ConfigMap))
	case "v1 ResourceQuota":
		m.object, err = into(text, new(core.ResourceQuota))
	case "v1 LimitRange":
		m.object, err = into(text, new(core.LimitRange))
	case "networking.k8s.io/v1 NetworkPolicy":
		m.object, err = into(text, new(network.NetworkPolicy))
	case "policy/v1 PodDisruptionBudget":
		m.object, err = into(text, new(policy.PodDisruptionBudget))
	case "v1 PersistentVolumeClaim":
		var o core.PersistentVolumeClaim
		m.object, err = into(text, &o)
		m.claims = []core.PersistentVolumeClaimSpec{o.Spec}
	case "apps/v1 StatefulSet":
		var o apps.StatefulSet
		m.object, err = into(text, &o)
		m.template, m.selector = &o.Spec.Template, o.Spec.Selector
		for _, claim := range o.Spec.VolumeClaimTemplates {
			o.Spec.Template.Spec.Volumes = append(o.Spec.Template.Spec.Volumes, core.Volume{Name: claim.Name})
			m.claims = append(m.claims, claim.Spec)
		}
	case "apps/v1 Deployment":
		var o apps.Deployment
		m.object, err = into(text, &o)
		m.template, m.selector = &o.Spec.Template, o.Spec.Selector
	case "apps/v1 DaemonSet":
		var o apps.DaemonSet
		m.object, err = into(text, &o)
		m.template, m.selector = &o.Spec.Template, o.Spec.Selector
	case "batch/v1 Job":
		var o batch.Job
		m.object, err = into(text, &o)
		m.template = &o.Spec.Template
	default:
		err = fmt.Errorf("no kind %q of %q is known here", kind.Kind, kind.APIVersion)
	}
	return m, err
}

func into[T meta.Object](text string, object T) (meta.Object, error) {
	return object, decode(text, object)
}

// parseAll reads a file of manifests.
func parseAll(text string) ([]manifest, error) {
	var all []manifest
	for part := range strings.SplitSeq(text, "\n---\n") {
		m, err := parse(part)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// checkManifests says what is wrong with a file of manifests.
func checkManifests(_ *testing.T, name, text string) error {
	all, err := parseAll(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, m := range all {
		if err := m.check(); err != nil {
			return fmt.Errorf("%s: %s %s: %w", name, m.kind, m.object.GetName(), err)
		}
	}
	return nil
}

func (m manifest) check() error {
	if m.kind != "Namespace" && m.object.GetNamespace() != namespace {
		return fmt.Errorf("is in namespace %q, want %q", m.object.GetNamespace(), namespace)
	}
	if m.template == nil {
		return nil
	}
	if m.selector != nil {
		selector, err := meta.LabelSelectorAsSelector(m.selector)
		if err != nil {
			return err
		}
		if !selector.Matches(labels.Set(m.template.Labels)) {
			return fmt.Errorf("selects %s, and its pods are %v", selector, m.template.Labels)
		}
	}
	return checkPod(m.template.Spec)
}

// checkPod asks for what the policy "restricted" does, and for what keeps a pod from others.
func checkPod(pod core.PodSpec) error {
	security := pod.SecurityContext
	switch {
	case security == nil || security.RunAsNonRoot == nil || !*security.RunAsNonRoot || security.RunAsUser == nil || *security.RunAsUser == 0:
		return errors.New("may run as root")
	case security.SeccompProfile == nil || security.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault:
		return errors.New(`has no seccompProfile RuntimeDefault, and "restricted" refuses it`)
	case pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken:
		return errors.New("gets a token for Kubernetes' API, which it does not need")
	case pod.TerminationGracePeriodSeconds == nil:
		return errors.New("does not say how long it needs to end")
	case pod.HostNetwork:
		return errors.New(`is on the host's network, and "restricted" refuses it`)
	case pod.Affinity == nil || pod.Affinity.PodAntiAffinity == nil:
		return errors.New("may be on a node with what is measured")
	}
	for _, v := range pod.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
			return fmt.Errorf("volume %s: may fill its node: give a sizeLimit", v.Name)
		}
	}
	for _, c := range pod.Containers {
		if err := checkContainer(c, pod.Volumes); err != nil {
			return fmt.Errorf("container %s: %w", c.Name, err)
		}
	}
	return nil
}

func checkContainer(c core.Container, volumes []core.Volume) error {
	security := c.SecurityContext
	switch {
	case security == nil || security.AllowPrivilegeEscalation == nil || *security.AllowPrivilegeEscalation:
		return errors.New("may get more rights")
	case security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem:
		return errors.New("may write into its image")
	case security.Capabilities == nil || !slices.Equal(security.Capabilities.Drop, []core.Capability{"ALL"}):
		return errors.New("keeps capabilities")
	case c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero():
		return errors.New("does not say which CPU time and memory it needs")
	}
	for _, mount := range c.VolumeMounts {
		if !slices.ContainsFunc(volumes, func(v core.Volume) bool { return v.Name == mount.Name }) {
			return fmt.Errorf("mounts %s, and there is no such volume", mount.Name)
		}
	}
	return nil
}

// manifestFiles returns the folder's manifests, without kustomization.yaml.
func manifestFiles(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "kubernetes", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		if name := filepath.Base(path); name != "kustomization.yaml" {
			names = append(names, name)
		}
	}
	return names
}

func TestManifests(t *testing.T) {
	t.Parallel()
	for _, name := range manifestFiles(t) {
		if err := checkManifests(t, name, read(t, "kubernetes/"+name)); err != nil {
			t.Error(err)
		}
	}
}

func checkKustomization(t *testing.T, _, text string) error {
	var k kustomization
	if err := decode(text, &k); err != nil {
		return err
	}
	if k.APIVersion != "kustomize.config.k8s.io/v1beta1" || k.Kind != "Kustomization" {
		return fmt.Errorf("is a %s of %s", k.Kind, k.APIVersion)
	}
	want := slices.DeleteFunc(manifestFiles(t), func(name string) bool { _, apart := appliedApart[name]; return apart })
	if got := slices.Sorted(slices.Values(k.Resources)); !slices.Equal(got, want) {
		return fmt.Errorf("has the resources %v, want %v", got, want)
	}
	return nil
}

func TestKustomization(t *testing.T) {
	t.Parallel()
	if err := checkKustomization(t, "", read(t, "kubernetes/kustomization.yaml")); err != nil {
		t.Error(err)
	}
	for _, name := range slices.Sorted(maps.Keys(appliedApart)) {
		if !slices.Contains(manifestFiles(t), name) {
			t.Errorf("%s is not there: take it out of appliedApart", name)
		}
	}
	mustFind(t, []mistake{
		{name: "key", file: "kubernetes/kustomization.yaml", old: "resources:", new: "resource:", want: `unknown field "resource"`},
		{name: "file", file: "kubernetes/kustomization.yaml", old: "hub.yaml", new: "hubs.yaml", want: "hubs.yaml"},
		{name: "images", file: "kubernetes/kustomization.yaml", old: "resources:", new: "images: []\nresources:", want: `unknown field "images"`},
	}, checkKustomization)
}

// pods returns the pods of all manifests.
func pods(t *testing.T) []core.PodTemplateSpec {
	t.Helper()
	var all []core.PodTemplateSpec
	for _, name := range manifestFiles(t) {
		manifests, err := parseAll(read(t, "kubernetes/"+name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifests {
			if m.template != nil {
				all = append(all, *m.template)
			}
		}
	}
	return all
}

// image runs in all pods: workers are matched by the hash of their program.
func image(t *testing.T) string {
	t.Helper()
	return pods(t)[0].Spec.Containers[0].Image
}

func TestAllRunOneImage(t *testing.T) {
	t.Parallel()
	for _, pod := range pods(t) {
		for _, c := range pod.Spec.Containers {
			if c.Image != image(t) {
				t.Errorf("%s runs %s, and another %s", c.Name, c.Image, image(t))
			}
		}
	}
	if text := read(t, "compose.yaml"); !strings.Contains(text, image(t)+"\n") {
		t.Errorf("compose.yaml does not run %s", image(t))
	}
}

// component tells servers, clients and the rest apart.
func component(pod core.PodTemplateSpec) string { return pod.Labels["app.kubernetes.io/component"] }

// Two pods are always on two nodes if one of them refuses the other's labels.
func TestServersAndClientsAreApart(t *testing.T) {
	t.Parallel()
	refuses := func(pod, other core.PodTemplateSpec) bool {
		for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			selector, err := meta.LabelSelectorAsSelector(term.LabelSelector)
			if err != nil {
				t.Fatal(err)
			}
			if term.TopologyKey == core.LabelHostname && selector.Matches(labels.Set(other.Labels)) {
				return true
			}
		}
		return false
	}
	measured := map[string]int{}
	for _, pod := range pods(t) {
		measured[component(pod)]++
		for _, other := range pods(t) {
			apart := component(pod) != component(other) && component(pod) != "hub" && component(other) != "hub"
			if apart && !refuses(pod, other) && !refuses(other, pod) {
				t.Errorf("a %s and a %s may be on one node", component(pod), component(other))
			}
		}
	}
	if measured["server"] == 0 || measured["client"] < 2 || measured["controller"] == 0 {
		t.Errorf("there are pods of %v; want a server, two kinds of client and a controller", measured)
	}
}

// All name the hub as it names itself: as its certificate has it.
func TestAllFindTheHub(t *testing.T) {
	t.Parallel()
	const want = "wirelab-hub." + namespace + ".svc.cluster.local" // of its Service
	for _, pod := range pods(t) {
		args := pod.Spec.Containers[0].Args
		if component(pod) == "hub" {
			if got := values(args, "--advertise"); !slices.Equal(got, []string{want}) {
				t.Errorf("the hub has the names %q, want %q", got, want)
			}
		} else if !slices.Contains(args, "tls://"+want+":4222") {
			t.Errorf("the %s does not have tls://%s:4222", component(pod), want)
		}
	}
}

// The pods' range is a setting of the cluster, in one place.
func TestPodRangeIsInOnePlace(t *testing.T) {
	t.Parallel()
	all, err := parseAll(read(t, "kubernetes/namespace.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	settings, ok := all[1].object.(*core.ConfigMap)
	if !ok {
		t.Fatalf("namespace.yaml has a %s, want a ConfigMap", all[1].kind)
	}
	for _, pod := range pods(t) {
		c := pod.Spec.Containers[0]
		if dial := values(c.Args, "--dial"); component(pod) == "client" && !slices.Equal(dial, []string{"$(POD_RANGE)"}) {
			t.Errorf("a client dials %v, want $(POD_RANGE)", dial)
		}
		for _, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil {
				continue
			}
			of := e.ValueFrom.ConfigMapKeyRef
			if value := settings.Data[of.Key]; of.Name != settings.Name || value == "" {
				t.Errorf("%s is %s of the ConfigMap %s, which has %q there", e.Name, of.Key, of.Name, value)
			} else if _, err := netip.ParsePrefix(value); err != nil {
				t.Errorf("%s: %v", of.Key, err)
			}
		}
	}
}

// What pods ask for by name is there, or is a secret of the example.
func TestSecretsHaveExamples(t *testing.T) {
	t.Parallel()
	examples, err := parseAll(read(t, "kubernetes/secrets.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, e := range examples {
		known[e.object.GetName()] = false
	}
	use := func(name string) {
		if _, ok := known[name]; !ok {
			t.Errorf("the secret %s has no example", name)
		}
		known[name] = true
	}
	three, err := kustomize(t, read(t, "three-hubs/hub.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range append(pods(t), *three["StatefulSet wirelab-hub"].template) {
		for _, v := range pod.Spec.Volumes {
			if v.Secret != nil {
				use(v.Secret.SecretName)
			}
		}
		for _, e := range pod.Spec.Containers[0].Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				use(e.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
	for name, used := range known {
		if !used {
			t.Errorf("the secret %s is nowhere used", name)
		}
	}
}

func TestMistakesInManifestsAreFound(t *testing.T) {
	t.Parallel()
	mustFind(t, []mistake{
		{name: "an unknown key", file: "kubernetes/compare.yaml", old: "completions:", new: "completionz:", want: `unknown field "spec.completionz"`},
		{name: "other letters", file: "kubernetes/server.yaml", old: "nodeSelector:", new: "nodeselector:", want: `unknown field "spec.template.spec.nodeselector"`},
		{name: "a key at another place", file: "kubernetes/clients.yaml", old: "    spec:\n      automount", new: "    spec:\n      image: x\n      automount", want: `unknown field "spec.template.spec.image"`},
		{name: "a key twice", file: "kubernetes/hub.yaml", old: "  clusterIP: None\n", new: "  clusterIP: None\n  clusterIP: None\n", want: "already set"},
		{name: "text for a number", file: "kubernetes/server.yaml", old: "replicas: 1", new: "replicas: one", want: "int32"},
		{name: "a number for text", file: "kubernetes/compare.yaml", old: `"64"`, new: "64", want: "type string"},
		{name: "no quantity", file: "kubernetes/clients.yaml", old: "memory: 2Gi", new: "memory: 2 GB", want: "quantities"},
		{name: "an unknown kind", file: "kubernetes/clients.yaml", old: "kind: DaemonSet", new: "kind: DaemonSets", want: "DaemonSets"},
		{name: "an old version", file: "kubernetes/clients.yaml", old: "apps/v1", new: "extensions/v1beta1", want: "extensions/v1beta1"},
		{name: "a selector of others", file: "kubernetes/server.yaml", old: "component: server", new: "component: servers", want: "selects"},
		{name: "a namespace", file: "kubernetes/hub.yaml", old: "namespace: wirelab", new: "namespace: other", want: "is in namespace"},
		{name: "root", file: "kubernetes/hub.yaml", old: "runAsUser: 65532", new: "runAsUser: 0", want: "root"},
		{name: "no filter", file: "kubernetes/hub.yaml", old: "RuntimeDefault", new: "Unconfined", want: "seccompProfile"},
		{name: "the host's network", file: "kubernetes/clients.yaml", old: "      nodeSelector:", new: "      hostNetwork: true\n      nodeSelector:", want: "host's network"},
		{name: "capabilities", file: "kubernetes/clients.yaml", old: "drop: [ALL]", new: "drop: [KILL]", want: "capabilities"},
		{name: "a volume", file: "kubernetes/clients.yaml", old: "- name: tmp\n              mountPath", new: "- name: temp\n              mountPath", want: "no such volume"},
		{name: "a folder without an end", file: "kubernetes/server.yaml", old: "emptyDir:\n            sizeLimit: 4Gi", new: "emptyDir: {}", want: "volume tmp: may fill its node"},
		{name: "no grace", file: "kubernetes/compare.yaml", old: "      terminationGracePeriodSeconds: 60\n", new: "", want: "how long"},
	}, checkManifests)
}
