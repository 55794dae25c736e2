package fleet

// PlayThousand is for the process that TestAThousandAgents starts.
var PlayThousand = playThousand

// QuietBytes is the most bytes that an agent may send per second about a worker.
const QuietBytes = maxBytesPerSecond
