"""Jobs outside the pass: the dispatcher protocol, job folders, processes, clusters."""
