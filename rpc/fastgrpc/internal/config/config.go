// Package config parses gRPC service configs (grpc/doc/service_config.md) and holds those in
// use, with the throttle of their retries. It must not know calls or connections.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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

// A Config is a parsed service config (grpc/doc/service_config.md). Like grpc-go's,
// it has no hedging: hedgingPolicy is ignored.
type Config struct {
	serviceconfig.Config // nil: only grpc-go's types may have the interface's unexported method

	RetryThrottling   *RetryThrottling
	HealthCheckConfig *HealthCheck
	Balancer          Balancer
	methods           map[string]*Method // keys: /service/method, /service/ or ""
}

// A HealthCheck names the service whose health decides whether a connection is used.
type HealthCheck struct{ ServiceName string }

// RetryThrottling stops retries while most calls fail.
type RetryThrottling struct{ MaxTokens, TokenRatio float64 }

// A Balancer is a balancing policy with its config.
type Balancer struct {
	Builder balancer.Builder
	Config  serviceconfig.LoadBalancingConfig // nil if the builder parses none
}

// A Method holds the config of some methods. A nil field is not set.
type Method struct {
	Name                                            []methodName
	WaitForReady                                    *bool
	Timeout                                         *Duration
	MaxRequestMessageBytes, MaxResponseMessageBytes *int64
	RetryPolicy                                     *RetryPolicy
}

type methodName struct{ Service, Method string }

// A RetryPolicy says which failed calls are tried again, and when.
type RetryPolicy struct {
	MaxAttempts                int
	InitialBackoff, MaxBackoff Duration
	BackoffMultiplier          float64
	RetryableStatusCodes       []codes.Code
}

// Duration has protobuf's JSON form, such as "1.5s".
type Duration time.Duration

// UnmarshalJSON reads protobuf's form. A duration beyond time.Duration's range becomes its bound.
func (d *Duration) UnmarshalJSON(js []byte) error {
	var p durationpb.Duration
	if err := protojson.Unmarshal(js, &p); err != nil {
		return fmt.Errorf("duration %s: want a string such as \"1.5s\"", js)
	}
	*d = Duration(p.AsDuration())
	return nil
}

// Parse parses a service config. It accepts and refuses the same configs as grpc-go.
// maxAttempts bounds the attempts of retry policies.
func Parse(js string, maxAttempts int) (*Config, error) {
	var in struct {
		LoadBalancingPolicy *string
		LoadBalancingConfig json.RawMessage
		MethodConfig        []Method
		RetryThrottling     *RetryThrottling
		HealthCheckConfig   *HealthCheck
	}
	if err := json.Unmarshal([]byte(js), &in); err != nil {
		return nil, fmt.Errorf("fastgrpc: service config: %w", err)
	}
	c := &Config{RetryThrottling: in.RetryThrottling, HealthCheckConfig: in.HealthCheckConfig, methods: map[string]*Method{}}
	if len(in.LoadBalancingConfig) == 0 || string(in.LoadBalancingConfig) == "null" {
		name := pickfirst.Name
		if in.LoadBalancingPolicy != nil && balancer.Get(*in.LoadBalancingPolicy) != nil {
			name = *in.LoadBalancingPolicy
		}
		in.LoadBalancingConfig, _ = json.Marshal([]map[string]struct{}{{name: {}}})
	}
	var err error
	if c.Balancer, err = parseBalancerConfig(in.LoadBalancingConfig); err != nil {
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

// parseBalancerConfig returns the first registered policy of a list.
func parseBalancerConfig(js json.RawMessage) (Balancer, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(js, &list); err != nil {
		return Balancer{}, err
	}
	for i, entry := range list {
		if len(entry) != 1 {
			return Balancer{}, fmt.Errorf("loadBalancingConfig[%d] has %d policies, want one", i, len(entry))
		}
		for name, js := range entry {
			b := balancer.Get(name)
			if b == nil {
				continue
			}
			parser, ok := b.(balancer.ConfigParser)
			if !ok {
				return Balancer{Builder: b}, nil
			}
			config, err := parser.ParseConfig(js)
			if err != nil {
				return Balancer{}, fmt.Errorf("policy %q: %w", name, err)
			}
			return Balancer{b, config}, nil
		}
	}
	return Balancer{}, fmt.Errorf("no registered balancing policy in %s: import its package", js)
}

func (c *Config) addMethods(m *Method, maxAttempts int) error {
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
		c.methods[path] = m
	}
	return nil
}

// Method returns the config of a method, or nil.
func (c *Config) Method(path string) *Method {
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

// Backoff returns how long to wait before the next attempt.
func (p *RetryPolicy) Backoff(retries int) time.Duration {
	d := float64(p.InitialBackoff) * math.Pow(p.BackoffMultiplier, float64(retries))
	return time.Duration(min(d, float64(p.MaxBackoff)) * (0.8 + 0.4*rand.Float64()))
}

// Unset stands for a message limit that no option sets.
const Unset = math.MinInt

// Limit returns the lesser of an option's limit and a config's, if they are set.
func Limit(option int, config *int64) int {
	switch {
	case config == nil:
		return option
	case option == Unset:
		return int(min(*config, math.MaxInt))
	}
	return int(min(int64(option), *config))
}

// A Throttle counts tokens: a failed call takes one, a successful one returns a part of one. If
// half of them or fewer are left, calls are not retried. nil allows all retries.
type Throttle struct {
	RetryThrottling
	mu     sync.Mutex
	tokens float64
}

// NewThrottle returns a full throttle, or nil if the config has none.
func (c *Config) NewThrottle() *Throttle {
	if c.RetryThrottling == nil {
		return nil
	}
	return &Throttle{RetryThrottling: *c.RetryThrottling, tokens: c.RetryThrottling.MaxTokens}
}

// Failed takes a token and reports whether too few are left for a retry.
func (t *Throttle) Failed() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = max(t.tokens-1, 0)
	return t.tokens <= t.MaxTokens/2
}

// Succeeded returns a part of a token.
func (t *Throttle) Succeeded() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = min(t.tokens+t.TokenRatio, t.MaxTokens)
}
