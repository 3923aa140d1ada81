"""How a job runs outside the pass: the dispatcher protocol, job folders, processes, clusters."""
