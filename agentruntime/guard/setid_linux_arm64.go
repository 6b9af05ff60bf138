package guard

// archModeCalls are none: arm64 has no older forms.
func archModeCalls() []modeCall { return nil }
