//go:build linux && !amd64 && !arm64

package guard

// auditArch is zero where nobody has made a list.
const auditArch = 0

func archModeCalls() []modeCall { return nil }
