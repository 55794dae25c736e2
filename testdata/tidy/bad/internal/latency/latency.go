package latency
