package server

import (
	"testing"

	"github.com/lightwork-market/lightwork/relay/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Relay{Start: func(t *testing.T) string { return "ws://" + start(t, Config{}).addr }})
}
