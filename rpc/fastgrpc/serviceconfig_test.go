package fastgrpc

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestServiceConfigsMatchGRPCGo checks that the same configs are accepted.
func TestServiceConfigsMatchGRPCGo(t *testing.T) {
	retry := func(policy string) string {
		return `{"methodConfig": [{"name": [{"service": "s"}], "retryPolicy": {` + policy + `}}]}`
	}
	method := func(field string) string { return `{"methodConfig": [{"name": [{}], ` + field + `}]}` }
	const policy = `"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]`
	configs := []string{
		``, `null`, `{}`, `[]`, `{"unknown": 1}`, roundRobin,
		`{"loadBalancingPolicy": "round_robin"}`, `{"loadBalancingPolicy": "unheard_of"}`,
		`{"loadBalancingConfig": []}`, `{"loadBalancingConfig": [{}]}`, `{"loadBalancingConfig": null}`, `{"loadBalancingConfig": {}}`,
		`{"loadBalancingConfig": [{"unheard_of": {}}]}`, `{"loadBalancingConfig": [{"pick_first": {}, "round_robin": {}}]}`,
		`{"loadBalancingConfig": [{"pick_first": 3}]}`, `{"loadBalancingConfig": [{"unheard_of": {}}, {"pick_first": {"shuffleAddressList": true}}]}`,
		`{"LOADBALANCINGCONFIG": [{"round_robin": {}}]}`,
		retry(policy), retry(strings.Replace(policy, "3", "1", 1)), retry(strings.Replace(policy, `"0.1s"`, `"0s"`, 1)),
		retry(strings.Replace(policy, `["UNAVAILABLE"]`, `[]`, 1)), retry(strings.Replace(policy, "UNAVAILABLE", "UNHEARD_OF", 1)),
		retry(strings.Replace(policy, `["UNAVAILABLE"]`, `[14, 4]`, 1)), retry(strings.Replace(policy, "2", "0", 1)), retry(``),
		method(`"timeout": "1s"`), method(`"timeout": "1.5s"`), method(`"timeout": ".5s"`), method(`"timeout": "1.s"`), method(`"timeout": "1"`), method(`"timeout": 1`),
		method(`"timeout": "-1s"`), method(`"timeout": "s"`), method(`"timeout": "1.0000000001s"`), method(`"timeout": null`), method(`"timeout": "315576000001s"`), method(`"timeout": "315576000000s"`),
		method(`"waitForReady": true`), method(`"waitForReady": "true"`), method(`"maxRequestMessageBytes": 10`), method(`"maxRequestMessageBytes": "10"`),
		method(`"hedgingPolicy": {"maxAttempts": 3}`),
		`{"methodConfig": null}`, `{"methodConfig": [{}]}`, `{"methodConfig": [{"name": null, "retryPolicy": {}}]}`, `{"methodConfig": [{"name": []}]}`,
		`{"methodConfig": [{"name": [{"method": "m"}]}]}`, `{"methodConfig": [{"name": [{"service": "s"}, {"service": "s"}]}]}`,
		`{"methodConfig": [{"name": [{"service": "s"}]}, {"name": [{"service": "s", "method": "m"}]}, {"name": [{}]}]}`,
		`{"retryThrottling": {"maxTokens": 0, "tokenRatio": 1}}`, `{"methodConfig": [], "retryThrottling": {"maxTokens": 0, "tokenRatio": 1}}`,
		`{"methodConfig": [], "retryThrottling": {"maxTokens": 1001, "tokenRatio": 1}}`, `{"methodConfig": [], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0}}`,
		`{"methodConfig": [], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`, `{"healthCheckConfig": {"serviceName": ""}}`, `{"healthCheckConfig": 1}`,
	}
	creds := insecure.NewCredentials()
	for _, js := range configs {
		their, theirs := grpc.NewClient("dns:///localhost", grpc.WithTransportCredentials(creds), grpc.WithDefaultServiceConfig(js))
		our, ours := NewClient("dns:///localhost", WithTransportCredentials(creds), WithDefaultServiceConfig(js))
		if (theirs == nil) != (ours == nil) {
			t.Errorf("%s: grpc-go says %v, fastgrpc %v", js, theirs, ours)
		}
		if theirs == nil {
			_ = their.Close()
		}
		if ours == nil {
			_ = our.Close()
		}
	}
}
