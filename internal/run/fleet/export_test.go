package fleet

import "wirelab.dev/internal/run/worker"

// PlayThousand is for the process that TestAThousandAgents starts.
var PlayThousand = playThousand

// QuietBytes is the most bytes that an agent may send per second about a worker.
const QuietBytes = maxBytesPerSecond

// ShowSteps calls see for each step of a search that the agent's workers measure, before the controller
// learns of it. see may change the step's result.
func (o *AgentOptions) ShowSteps(see func(*worker.StepResult)) {
	o.start = func(l worker.Launch) (workerProcess, error) {
		report := l.OnStep
		l.OnStep = func(s worker.StepResult) {
			see(&s)
			report(s)
		}
		started, err := worker.Start(l)
		if err != nil {
			return nil, err
		}
		return started, nil
	}
}
