package fleet

// PlayThousand is for the process that TestAThousandAgents starts.
var PlayThousand = playThousand
