"""Where builders get rates and delays from: access links, matrices and measured regions."""
