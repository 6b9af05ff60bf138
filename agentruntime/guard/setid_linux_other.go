//go:build linux && !amd64 && !arm64

package guard

func archModeCalls() []modeCall { return nil }
