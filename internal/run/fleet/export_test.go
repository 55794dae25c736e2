package fleet

// PlayThousand is for the process that TestAThousandAgents starts.
var PlayThousand = playThousand

// QuietBytes is what an agent may tell of a worker in a second.
const QuietBytes = quietBytes
