// Package config parses gRPC service configs (grpc/doc/service_config.md), and limits retries as
// they require. It must not know calls or connections.
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

// A Config is a parsed service config. As in grpc-go, it has no hedgingPolicy.
type Config struct {
	serviceconfig.Config // nil; embedded because the interface has an unexported method

	RetryThrottling   *RetryThrottling
	HealthCheckConfig *HealthCheck
	Balancer          BalancerConfig
	methods           map[string]*MethodConfig // the keys are /service/method, /service/, or "" for all methods
}

// A HealthCheck names the service for health checks. Unhealthy connections get no calls.
type HealthCheck struct{ ServiceName string }

// RetryThrottling holds the limits of a Throttle.
type RetryThrottling struct{ MaxTokens, TokenRatio float64 }

// A BalancerConfig holds the builder and the config of a balancing policy.
type BalancerConfig struct {
	Builder balancer.Builder
	Config  serviceconfig.LoadBalancingConfig // nil if the builder cannot parse configs
}

// A MethodConfig holds the settings for the methods in Name. A setting that is nil is not set.
type MethodConfig struct {
	Name                                            []methodName
	WaitForReady                                    *bool
	Timeout                                         *Duration
	MaxRequestMessageBytes, MaxResponseMessageBytes *int64
	RetryPolicy                                     *RetryPolicy
}

type methodName struct{ Service, Method string }

// A RetryPolicy says which failed calls are retried, how often, and after which pauses.
type RetryPolicy struct {
	MaxAttempts                int
	InitialBackoff, MaxBackoff Duration
	BackoffMultiplier          float64
	RetryableStatusCodes       []codes.Code
}

// Duration is a time.Duration with protobuf's JSON form, such as "1.5s".
type Duration time.Duration

// UnmarshalJSON replaces a value outside time.Duration's range by the nearest value inside.
func (d *Duration) UnmarshalJSON(js []byte) error {
	var p durationpb.Duration
	if err := protojson.Unmarshal(js, &p); err != nil {
		return fmt.Errorf("found the duration %s, want a string such as \"1.5s\"", js)
	}
	*d = Duration(p.AsDuration())
	return nil
}

// Parse parses a service config. It accepts and refuses the same configs as grpc-go. It lowers the
// attempts of retry policies to maxAttempts.
func Parse(js string, maxAttempts int) (*Config, error) {
	var in struct {
		LoadBalancingPolicy *string
		LoadBalancingConfig json.RawMessage
		MethodConfig        []MethodConfig
		RetryThrottling     *RetryThrottling
		HealthCheckConfig   *HealthCheck
	}
	if err := json.Unmarshal([]byte(js), &in); err != nil {
		return nil, fmt.Errorf("fastgrpc: cannot parse the service config: %w", err)
	}
	c := &Config{RetryThrottling: in.RetryThrottling, HealthCheckConfig: in.HealthCheckConfig, methods: map[string]*MethodConfig{}}
	if len(in.LoadBalancingConfig) == 0 || string(in.LoadBalancingConfig) == "null" {
		name := pickfirst.Name
		if in.LoadBalancingPolicy != nil && balancer.Get(*in.LoadBalancingPolicy) != nil {
			name = *in.LoadBalancingPolicy
		}
		in.LoadBalancingConfig, _ = json.Marshal([]map[string]struct{}{{name: {}}})
	}
	var err error
	if c.Balancer, err = parseBalancerConfig(in.LoadBalancingConfig); err != nil {
		return nil, fmt.Errorf("fastgrpc: cannot parse the service config: %w", err)
	}
	for i := range in.MethodConfig {
		if err := c.addMethods(&in.MethodConfig[i], maxAttempts); err != nil {
			return nil, fmt.Errorf("fastgrpc: invalid service config: methodConfig[%d]: %w", i, err)
		}
	}
	if t := c.RetryThrottling; t != nil && in.MethodConfig != nil && (t.MaxTokens <= 0 || t.MaxTokens > 1000 || t.TokenRatio <= 0) {
		return nil, fmt.Errorf("fastgrpc: invalid service config: retryThrottling: found maxTokens %v and tokenRatio %v, want maxTokens above 0 and at most 1000, and tokenRatio above 0", t.MaxTokens, t.TokenRatio)
	}
	return c, nil
}

// parseBalancerConfig returns the first policy in the JSON list whose balancer is registered.
func parseBalancerConfig(js json.RawMessage) (BalancerConfig, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(js, &list); err != nil {
		return BalancerConfig{}, err
	}
	for i, entry := range list {
		if len(entry) != 1 {
			return BalancerConfig{}, fmt.Errorf("loadBalancingConfig[%d] has %d policies, want exactly one", i, len(entry))
		}
		for name, js := range entry {
			b := balancer.Get(name)
			if b == nil {
				continue
			}
			parser, ok := b.(balancer.ConfigParser)
			if !ok {
				return BalancerConfig{Builder: b}, nil
			}
			config, err := parser.ParseConfig(js)
			if err != nil {
				return BalancerConfig{}, fmt.Errorf("balancing policy %q: %w", name, err)
			}
			return BalancerConfig{b, config}, nil
		}
	}
	return BalancerConfig{}, fmt.Errorf("found no registered balancing policy in loadBalancingConfig %s: import the package of one of them", js)
}

func (c *Config) addMethods(m *MethodConfig, maxAttempts int) error {
	if m.Name == nil {
		return nil
	}
	if p := m.RetryPolicy; p != nil {
		if p.MaxAttempts <= 1 || p.InitialBackoff <= 0 || p.MaxBackoff <= 0 || p.BackoffMultiplier <= 0 || len(p.RetryableStatusCodes) == 0 {
			return errors.New("retryPolicy: want maxAttempts above 1; initialBackoff, maxBackoff and backoffMultiplier above 0; and at least one of retryableStatusCodes")
		}
		p.MaxAttempts = min(p.MaxAttempts, maxAttempts)
	}
	for _, n := range m.Name {
		path := "/" + n.Service + "/" + n.Method
		if n.Service == "" {
			if path = ""; n.Method != "" {
				return fmt.Errorf("name: found method %q without a service: add the service", n.Method)
			}
		}
		if c.methods[path] != nil {
			return fmt.Errorf("name: %q appears twice: keep one methodConfig for it", path)
		}
		c.methods[path] = m
	}
	return nil
}

// ForMethod returns the config for the method with this path. If there is none, it returns an empty
// config.
func (c *Config) ForMethod(path string) *MethodConfig {
	if len(c.methods) > 0 {
		for _, key := range [...]string{path, path[:strings.LastIndexByte(path, '/')+1], ""} {
			if m := c.methods[key]; m != nil {
				return m
			}
		}
	}
	return &emptyMethodConfig
}

var emptyMethodConfig MethodConfig

// Backoff returns the pause before the next attempt, after this number of retries.
func (p *RetryPolicy) Backoff(retries int) time.Duration {
	d := float64(p.InitialBackoff) * math.Pow(p.BackoffMultiplier, float64(retries))
	return time.Duration(min(d, float64(p.MaxBackoff)) * (0.8 + 0.4*rand.Float64()))
}

// UnsetLimit is the value of a message limit that no call option sets.
const UnsetLimit = math.MinInt

// MessageLimit returns the lower limit of option and config, if both are set, or else the limit that
// is set. If neither is set, it returns otherwise.
func MessageLimit(option int, config *int64, otherwise int) int {
	switch {
	case config == nil && option == UnsetLimit:
		return otherwise
	case config == nil:
		return option
	case option == UnsetLimit:
		return int(min(*config, math.MaxInt))
	}
	return int(min(int64(option), *config))
}

// A Throttle prevents retries while many calls fail. It counts tokens: a failed call removes one, a
// successful call adds a part of one. Calls are retried only while more than half of the tokens are
// left. A nil Throttle allows all retries.
type Throttle struct {
	RetryThrottling
	mu     sync.Mutex
	tokens float64
}

// NewThrottle returns a throttle with all tokens, or nil if the config sets no RetryThrottling.
func (c *Config) NewThrottle() *Throttle {
	if c.RetryThrottling == nil {
		return nil
	}
	return &Throttle{RetryThrottling: *c.RetryThrottling, tokens: c.RetryThrottling.MaxTokens}
}

// CallFailed removes a token. It returns true if too few tokens are left for a retry.
func (t *Throttle) CallFailed() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = max(t.tokens-1, 0)
	return t.tokens <= t.MaxTokens/2
}

// CallSucceeded adds a part of a token.
func (t *Throttle) CallSucceeded() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = min(t.tokens+t.TokenRatio, t.MaxTokens)
}
