package fastgrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
)

// serviceConfig is a parsed service config (grpc/doc/service_config.md). Like grpc-go's,
// it has no hedging: hedgingPolicy is read over.
type serviceConfig struct {
	serviceconfig.Config // nil: only grpc-go's types may have the interface's unexported method

	RetryThrottling   *retryThrottling
	HealthCheckConfig *healthCheckConfig
	balancer          balancerConfig
	methods           map[string]*methodConfig // by /service/method, /service/ or ""
}

type healthCheckConfig struct{ ServiceName string }

// retryThrottling stops retries while most calls fail.
type retryThrottling struct{ MaxTokens, TokenRatio float64 }

type balancerConfig struct {
	builder balancer.Builder
	config  serviceconfig.LoadBalancingConfig // nil if the builder parses none
}

// methodConfig is what a service config says of some methods. nil is not said.
type methodConfig struct {
	Name                                            []methodName
	WaitForReady                                    *bool
	Timeout                                         *jsonDuration
	MaxRequestMessageBytes, MaxResponseMessageBytes *int64
	RetryPolicy                                     *retryPolicy
}

type methodName struct{ Service, Method string }

type retryPolicy struct {
	MaxAttempts                int
	InitialBackoff, MaxBackoff jsonDuration
	BackoffMultiplier          float64
	RetryableStatusCodes       []codes.Code
}

// jsonDuration has protobuf's JSON form, such as "1.5s".
type jsonDuration time.Duration

// UnmarshalJSON reads protobuf's form. What time.Duration cannot hold becomes its bound.
func (d *jsonDuration) UnmarshalJSON(js []byte) error {
	var p durationpb.Duration
	if err := protojson.Unmarshal(js, &p); err != nil {
		return fmt.Errorf("duration %s: want a string such as \"1.5s\"", js)
	}
	*d = jsonDuration(p.AsDuration())
	return nil
}

// parseServiceConfig accepts and refuses what grpc-go does.
func parseServiceConfig(js string, maxAttempts int) (*serviceConfig, error) {
	var in struct {
		LoadBalancingPolicy *string
		LoadBalancingConfig json.RawMessage
		MethodConfig        []methodConfig
		RetryThrottling     *retryThrottling
		HealthCheckConfig   *healthCheckConfig
	}
	if err := json.Unmarshal([]byte(js), &in); err != nil {
		return nil, fmt.Errorf("fastgrpc: service config: %w", err)
	}
	c := &serviceConfig{RetryThrottling: in.RetryThrottling, HealthCheckConfig: in.HealthCheckConfig}
	if len(in.LoadBalancingConfig) == 0 || string(in.LoadBalancingConfig) == "null" {
		name := pickfirst.Name
		if in.LoadBalancingPolicy != nil && balancer.Get(*in.LoadBalancingPolicy) != nil {
			name = *in.LoadBalancingPolicy
		}
		in.LoadBalancingConfig, _ = json.Marshal([]map[string]struct{}{{name: {}}})
	}
	var err error
	if c.balancer, err = parseBalancerConfig(in.LoadBalancingConfig); err != nil {
		return nil, fmt.Errorf("fastgrpc: service config: %w", err)
	}
	for i := range in.MethodConfig {
		if err := c.addMethods(&in.MethodConfig[i], maxAttempts); err != nil {
			return nil, fmt.Errorf("fastgrpc: service config: methodConfig[%d]: %w", i, err)
		}
	}
	if t := c.RetryThrottling; t != nil && in.MethodConfig != nil && (t.MaxTokens <= 0 || t.MaxTokens > 1000 || t.TokenRatio <= 0) {
		return nil, fmt.Errorf("fastgrpc: service config: retryThrottling: maxTokens %v must be above 0 and at most 1000, and tokenRatio %v above 0", t.MaxTokens, t.TokenRatio)
	}
	return c, nil
}

// parseBalancerConfig takes the first registered policy of a list.
func parseBalancerConfig(js json.RawMessage) (balancerConfig, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(js, &list); err != nil {
		return balancerConfig{}, err
	}
	for i, entry := range list {
		if len(entry) != 1 {
			return balancerConfig{}, fmt.Errorf("loadBalancingConfig[%d] has %d policies, want one", i, len(entry))
		}
		for name, js := range entry {
			b := balancer.Get(name)
			if b == nil {
				continue
			}
			parser, ok := b.(balancer.ConfigParser)
			if !ok {
				return balancerConfig{builder: b}, nil
			}
			config, err := parser.ParseConfig(js)
			if err != nil {
				return balancerConfig{}, fmt.Errorf("policy %q: %w", name, err)
			}
			return balancerConfig{b, config}, nil
		}
	}
	return balancerConfig{}, fmt.Errorf("no registered balancing policy in %s: import its package", js)
}

func (c *serviceConfig) addMethods(m *methodConfig, maxAttempts int) error {
	if m.Name == nil {
		return nil
	}
	if p := m.RetryPolicy; p != nil {
		if p.MaxAttempts <= 1 || p.InitialBackoff <= 0 || p.MaxBackoff <= 0 || p.BackoffMultiplier <= 0 || len(p.RetryableStatusCodes) == 0 {
			return errors.New("retryPolicy needs maxAttempts above 1, initialBackoff, maxBackoff, backoffMultiplier and retryableStatusCodes")
		}
		p.MaxAttempts = min(p.MaxAttempts, maxAttempts)
	}
	for _, n := range m.Name {
		path := "/" + n.Service + "/" + n.Method
		if n.Service == "" {
			if path = ""; n.Method != "" {
				return fmt.Errorf("name: method %q without a service", n.Method)
			}
		}
		if c.methods[path] != nil {
			return fmt.Errorf("name: %q has a config already", path)
		}
		if c.methods == nil {
			c.methods = make(map[string]*methodConfig)
		}
		c.methods[path] = m
	}
	return nil
}

// method returns the config of a method, or nil.
func (c *serviceConfig) method(path string) *methodConfig {
	if len(c.methods) == 0 {
		return nil
	}
	if m := c.methods[path]; m != nil {
		return m
	}
	if m := c.methods[path[:strings.LastIndexByte(path, '/')+1]]; m != nil {
		return m
	}
	return c.methods[""]
}

// limit returns the lesser of an option's limit and a config's, of those that are set.
func limit(option int, config *int64) int {
	switch {
	case config == nil:
		return option
	case option == unset:
		return int(min(*config, math.MaxInt))
	}
	return int(min(int64(option), *config))
}

// appliedConfig is a config in use, with its state.
type appliedConfig struct {
	*serviceConfig
	throttle *throttle
}

// throttle counts tokens: a failed call takes one, a successful one gives a part of one
// back. With half of them or fewer, calls are not retried. nil allows all.
type throttle struct {
	retryThrottling
	mu     sync.Mutex
	tokens float64
}

func newThrottle(config *retryThrottling) *throttle {
	if config == nil {
		return nil
	}
	return &throttle{retryThrottling: *config, tokens: config.MaxTokens}
}

// failed takes a token and reports whether too few are left for a retry.
func (t *throttle) failed() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = max(t.tokens-1, 0)
	return t.tokens <= t.MaxTokens/2
}

func (t *throttle) succeeded() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = min(t.tokens+t.TokenRatio, t.MaxTokens)
}
