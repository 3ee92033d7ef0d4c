"""The command `trunkline`: words in, exit codes out; one file per verb in `verbs`."""
